//! The additional servers of `sessions.pcap`: mail, files, time, addresses, proxies, QUIC, DTLS, TURN.
//!
//! All are Debian packages except QUIC's, because Debian 12 has no QUIC server: aioquic, in a virtual
//! environment.

use std::path::PathBuf;
use std::process::Child;

use crate::lab::servers::{ACCESS_LOG, await_port};
use crate::lab::{SCRATCH, spawn};
use crate::shell::{Result, root, sh, write};

/// Required programs beyond the lab's.
pub const TOOLS: &[(&str, &str)] = &[
    ("tinyproxy", "tinyproxy-bin"),
    ("nghttpx", "nghttp2-proxy"),
    ("nghttp", "nghttp2-client"),
    ("h2load", "nghttp2-client"),
    ("exim4", "exim4-daemon-light"),
    ("swaks", "swaks libnet-ssleay-perl libio-socket-ssl-perl"),
    ("dovecot", "dovecot-imapd dovecot-pop3d"),
    ("vsftpd", "vsftpd"),
    ("udhcpc", "udhcpc"),
    ("chronyd", "chrony"),
    ("turnserver", "coturn"),
    ("python3", "python3-venv"),
];

/// Columns after those of `ACCESS_LOG`: 16 to 21.
const MORE_COLUMNS: &str = "\\t$body_bytes_sent\\t$remote_user\\t$sent_http_content_encoding\\t\
    $sent_http_transfer_encoding\\t$http_user_agent\\t$content_length";

/// The environment with aioquic, created in the build folder before entering the lab, which has no network
/// access.
pub fn python() -> Result<PathBuf> {
    let folder = root().join("target/aioquic");
    let python = folder.join("bin/python");
    if !python.is_file() {
        let at = folder.display();
        sh(&format!("python3 -m venv '{at}'; '{at}/bin/pip' install -q 'aioquic==1.*' >&2"))?;
    }
    Ok(python)
}

/// Users' mailboxes, files to download, a certificate for the mail server.
pub fn stage() -> Result {
    sh(&format!(
        "cd {SCRATCH}
         chmod 755 .; mkdir -p -m 750 chrony; mkdir -p exim exim-client mail dovecot ftp/pub ftp/incoming empty www/ssi www/private
         chown mail:mail mail; chown ftp ftp/incoming; chown Debian-exim exim exim-client
         openssl req -x509 -nodes -days 30 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -keyout mail.key \
            -out mail.pem -subj '/O=Weir Test Lab/CN=mail.example.com' -addext \
            subjectAltName=DNS:mail.example.com,DNS:ftp.example.com 2>/dev/null
         chmod 644 mail.key *.key.pub ca.pem; chmod 755 www www/*/
         seq 1 800 | sed 's/.*/& drops make a stream/' > www/page.txt
         seq 1 200 | sed 's/.*/& drops in pieces/' > www/ssi/page.shtml
         echo 'behind a door' > www/private/index.html
         echo \"alice:$(openssl passwd -apr1 weir)\" > www.users
         seq 1 500 > ftp/pub/numbers.txt; chmod 644 ftp/pub/*"
    ))?;
    write(format!("{SCRATCH}/quic_server.py"), include_str!("quic_server.py"))?;
    write(format!("{SCRATCH}/quic_client.py"), include_str!("quic_client.py"))?;
    // exim trusts only this file when it runs itself for delivery; for this mount namespace only.
    sh("mount -t tmpfs lab /etc/exim4")?;
    write("/etc/exim4/exim4.conf", EXIM)?;
    write(format!("{SCRATCH}/exim-client.conf"), EXIM_CLIENT)?;
    write(format!("{SCRATCH}/dovecot.conf"), DOVECOT)?;
    write(format!("{SCRATCH}/vsftpd.conf"), VSFTPD)?;
    write(format!("{SCRATCH}/tinyproxy.conf"), TINYPROXY)?;
    write(format!("{SCRATCH}/nghttpx.conf"), NGHTTPX)?;
    write(format!("{SCRATCH}/dnsmasq.conf"), DNSMASQ.replace("WATER", &"wordsofwater".repeat(18)))?;
    write(format!("{SCRATCH}/chrony.conf"), CHRONY)?;
    write(format!("{SCRATCH}/udhcpc.sh"), UDHCPC)?;
    sh(&format!("chmod 755 {SCRATCH}/udhcpc.sh"))?;
    write(
        format!("{SCRATCH}/nginx.conf"),
        NGINX.replace("ACCESS_LOG", ACCESS_LOG).replace("MORE", MORE_COLUMNS),
    )
}

/// Starts all servers; the first is nginx.
pub fn start(python: &str) -> Result<Vec<Child>> {
    let quic = |port: u16, how: &str| {
        format!(
            "exec {python} quic_server.py 198.51.100.10 {port} www.example.com.ec.pem www.example.com.ec.key {how} \
             >> quic-server.log 2>> quic-error.log"
        )
    };
    let dtls = |port: u16, how: &str| {
        format!(
            "tail -f /dev/null | openssl s_server -dtls1_2 -accept 198.51.100.10:{port} {how} \
             -cert www.example.com.ec.pem -key www.example.com.ec.key > dtls-{port}.log 2>&1"
        )
    };
    let mut children = vec![];
    for (namespace, line) in [
        ("server", "exec nginx -e /run/lab/nginx-error.log -c /run/lab/nginx.conf".to_string()),
        ("server", "exec dnsmasq --conf-file=dnsmasq.conf --keep-in-foreground".into()),
        ("server", "exec exim4 -bdf".into()),
        ("server", "exec dovecot -F -c /run/lab/dovecot.conf".into()),
        ("server", "exec vsftpd /run/lab/vsftpd.conf".into()),
        ("server", "exec tinyproxy -d -c tinyproxy.conf > tinyproxy.out 2>&1".into()),
        ("server", "exec nghttpx --conf=/run/lab/nghttpx.conf".into()),
        ("server", TURN.into()),
        ("server", "exec turnutils_peer -L 198.51.100.11 -p 3480 > peer.log 2>&1".into()),
        ("server", "exec chronyd -d -x -u root -f chrony.conf > chrony.log 2>&1".into()),
        ("router", ROUTER_DHCP.into()),
        ("server", quic(443, "1")),
        ("server", quic(8443, "2,1")),
        ("server", quic(9443, "1 retry")),
        ("server", dtls(4433, "")),
        ("server", dtls(4434, "-listen")),
    ] {
        children.push(spawn(namespace, &format!("sh -c 'cd {SCRATCH}; {line}'"))?);
    }
    for port in [80, 443, 8080, 8081, 8888, 53, 25, 110, 143, 21, 3478] {
        await_port(&format!("198.51.100.10:{port}"))?;
    }
    std::thread::sleep(std::time::Duration::from_secs(2)); // for servers that only listen on UDP
    Ok(children)
}

const NGINX: &str = "
daemon off; user root; worker_processes 1; pid /run/lab/nginx.pid; error_log /run/lab/nginx-error.log info;
events { worker_connections 256; }
http {
    log_format lab 'ACCESS_LOGMORE'; access_log /run/lab/nginx-access.log lab;
    types { text/plain txt; text/html html shtml; } default_type application/octet-stream;
    client_body_temp_path /run/lab/body; proxy_temp_path /run/lab/p; fastcgi_temp_path /run/lab/f;
    uwsgi_temp_path /run/lab/u; scgi_temp_path /run/lab/s;
    server {
        server_name www.example.com; root /run/lab/www;
        listen 198.51.100.10:80; listen [2001:db8:2::10]:80; listen 198.51.100.10:8080 http2;
        listen 198.51.100.10:443 ssl http2; ssl_protocols TLSv1.2 TLSv1.3;
        ssl_certificate /run/lab/www.example.com.ec.pem; ssl_certificate_key /run/lab/www.example.com.ec.key;
        if_modified_since before; gzip on; gzip_types text/plain; gzip_proxied any;
        location /upload { client_max_body_size 1m; return 204; }
        location /form { proxy_pass http://198.51.100.10/upload; }
        location /ssi/ { gzip off; ssi on; ssi_last_modified off; }
        location /old { return 301 /small.bin; }
        location /private/ { auth_basic lab; auth_basic_user_file /run/lab/www.users; }
    }
}
";

const DNSMASQ: &str = "
bind-interfaces
listen-address=198.51.100.10,2001:db8:2::10
no-resolv
no-hosts
user=root
group=root
pid-file=
log-queries=extra
log-facility=/run/lab/dnsmasq.log
local=/example.com/
local=/100.51.198.in-addr.arpa/
local=/0.0.0.0.0.0.0.0.2.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa/
host-record=www.example.com,198.51.100.10,2001:db8:2::10
host-record=mail.example.com,198.51.100.10
host-record=ftp.example.com,198.51.100.10
host-record=proxy.example.com,198.51.100.10
cname=static.example.com,www.example.com
mx-host=example.com,mail.example.com,10
srv-host=_imap._tcp.example.com,mail.example.com,143,0,1
txt-record=example.com,v=spf1 mx -all
txt-record=long.example.com,WATER,WATER,WATER,WATER
naptr-record=example.com,10,20,s,SIP+D2U,,_sip._udp.example.com
caa-record=example.com,0,issue,ca.example.com
";

const EXIM: &str = "
primary_hostname = mail.example.com
daemon_smtp_ports = 25
local_interfaces = <; 198.51.100.10 ; 2001:db8:2::10
spool_directory = /run/lab/exim
log_file_path = /run/lab/exim/server-%s.log
pid_file_path = /run/lab/exim/pid
log_selector = +received_recipients +subject +incoming_port +tls_sni +smtp_connection +received_sender
tls_certificate = /run/lab/mail.pem
tls_privatekey = /run/lab/mail.key
tls_advertise_hosts = *
host_lookup =
rfc1413_query_timeout = 0s
keep_environment =
acl_smtp_rcpt = rcpt

begin acl
rcpt:
  accept domains = example.com
         local_parts = alice : bob : carol
  deny message = nobody of that name here

begin routers
boxes:
  driver = accept
  local_parts = alice : bob : carol
  transport = box

begin transports
box:
  driver = appendfile
  directory = /run/lab/mail/$local_part_data
  maildir_format
  create_directory
  user = mail
  group = mail

begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_prompts = :
  server_condition = ${if and{{eq{$auth2}{alice}}{eq{$auth3}{weir}}}}
  server_set_id = $auth2
";

const EXIM_CLIENT: &str = "
primary_hostname = client.example.com
spool_directory = /run/lab/exim-client
log_file_path = /run/lab/exim-client/client-%s.log
keep_environment =

begin routers
all:
  driver = manualroute
  route_list = * 198.51.100.10
  self = send
  transport = remote

begin transports
remote:
  driver = smtp
  hosts_avoid_tls = *
";

const DOVECOT: &str = "
protocols = imap pop3
listen = 198.51.100.10, 2001:db8:2::10
base_dir = /run/lab/dovecot
state_dir = /run/lab/dovecot
log_path = /run/lab/dovecot.log
ssl = yes
ssl_cert = </run/lab/mail.pem
ssl_key = </run/lab/mail.key
disable_plaintext_auth = no
auth_mechanisms = plain login
login_log_format_elements = user=<%u> method=%m rip=%r rport=%{rport} mpid=%e %c
mail_location = maildir:/run/lab/mail/%n
first_valid_uid = 1
service imap-login {
  inet_listener imaps {
    port = 0
  }
}
service pop3-login {
  inet_listener pop3s {
    port = 0
  }
}
passdb {
  driver = static
  args = password=weir
}
userdb {
  driver = static
  args = uid=mail gid=mail home=/run/lab/mail/%n
}
";

const VSFTPD: &str = "\
listen=YES
listen_address=198.51.100.10
background=NO
anonymous_enable=YES
local_enable=NO
write_enable=YES
anon_upload_enable=YES
anon_mkdir_write_enable=YES
anon_other_write_enable=YES
anon_root=/run/lab/ftp
ftp_username=ftp
nopriv_user=nobody
secure_chroot_dir=/run/lab/empty
xferlog_enable=YES
dual_log_enable=YES
xferlog_file=/run/lab/xferlog
vsftpd_log_file=/run/lab/vsftpd.log
log_ftp_protocol=YES
pasv_min_port=30000
pasv_max_port=30019
connect_from_port_20=YES
isolate=NO
isolate_network=NO
seccomp_sandbox=NO
ssl_enable=YES
allow_anon_ssl=YES
require_ssl_reuse=NO
rsa_cert_file=/run/lab/mail.pem
rsa_private_key_file=/run/lab/mail.key
ssl_ciphers=HIGH
ftpd_banner=A low dam that measures water.
";

const TINYPROXY: &str = "
Port 8888
Listen 198.51.100.10
Timeout 60
LogFile \"/run/lab/tinyproxy.log\"
LogLevel Info
MaxClients 10
ConnectPort 443
ViaProxyName \"proxy.example.com\"
";

const CHRONY: &str = "
local stratum 8
allow
bindaddress 198.51.100.10
cmdport 0
bindcmdaddress /run/lab/chrony/chronyd.sock
pidfile /run/lab/chronyd.pid
";

/// udhcpc's script: configures the address, and releases it.
const UDHCPC: &str = "#!/bin/sh
case $1 in
    bound) ip addr add $ip/24 dev $interface ;;
    deconfig) ip addr flush dev $interface to 192.0.2.128/25 ;;
esac
";

const ROUTER_DHCP: &str = "exec dnsmasq --conf-file=/dev/null --keep-in-foreground --port=0 --interface=net0 --bind-interfaces \
    --user=root --group=root --pid-file= --log-facility=/run/lab/dhcp.log --log-dhcp \
    --dhcp-leasefile=/run/lab/dhcp.leases --dhcp-range=192.0.2.130,192.0.2.139,1h --dhcp-authoritative --no-ping \
    --dhcp-option=option:router,192.0.2.1 --dhcp-option=option:dns-server,198.51.100.10 --domain=example.com";

const NGHTTPX: &str = "
workers=1
frontend=198.51.100.10,8081;no-tls
backend=198.51.100.10,80
errorlog-file=/run/lab/nghttpx-error.log
accesslog-file=/run/lab/nghttpx.log
accesslog-format=$remote_addr,$remote_port,$method,$path,$protocol_version,$status,$body_bytes_sent
";

const TURN: &str = "exec turnserver -n -v --listening-ip=198.51.100.10 --relay-ip=198.51.100.10 --min-port=40000 \
    --max-port=40100 --lt-cred-mech --user=alice:weir --realm=example.com --no-tls --no-dtls --no-cli \
    --log-file=/run/lab/turn.log --simple-log --pidfile=/run/lab/turn.pid --db=/run/lab/turn.sqlite > turn.out 2>&1";
