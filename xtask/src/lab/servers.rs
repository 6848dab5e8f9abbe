//! The lab's servers: nginx (HTTP, TLS), OpenSSH, dnsmasq, all real and from Debian.
//!
//! Keys and certificates are created in the lab's memory and vanish with it.

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::lab::{SCRATCH, inside, spawn};
use crate::shell::{Result, output, sh, write};

/// One server name, the last byte of its addresses, its TLS settings in nginx's syntax.
struct Site {
    name: &'static str,
    addresses: &'static [&'static str],
    http2: bool,
    tls: &'static str,
}

// Settings apply per listening address, so every site with different settings has its own address.
const SITES: &[Site] = &[
    Site {
        name: "www.example.com",
        addresses: &[
            "198.51.100.10",
            "[2001:db8:2::10]",
            "198.51.100.13",
            "[2001:db8:2::13]",
            "203.0.113.10",
        ],
        http2: true,
        tls: "ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:www:1m;",
    },
    Site {
        name: "api.example.org",
        addresses: &["198.51.100.11", "[2001:db8:2::11]"],
        http2: false,
        tls: "ssl_protocols TLSv1.2; ssl_session_tickets off; ssl_session_cache shared:api:1m;",
    },
    Site {
        name: "shop.example.net",
        addresses: &["198.51.100.12"],
        http2: true,
        tls: "ssl_protocols TLSv1.3; ssl_ecdh_curve secp384r1;",
    },
];

/// The columns of nginx's access log, separated by tabs; `capture::facts` reads them.
pub const ACCESS_LOG: &str = "$connection\\t$remote_addr\\t$remote_port\\t$server_addr\\t$server_port\\t\
    $request_method\\t$request_uri\\t$server_protocol\\t$status\\t$bytes_sent\\t$http_host\\t$ssl_server_name\\t\
    $ssl_protocol\\t$ssl_cipher\\t$ssl_alpn_protocol\\t$ssl_session_reused";

/// A certificate authority and one certificate per site, RSA and ECDSA for the first.
pub fn keys() -> Result {
    let mut script = format!(
        "cd {SCRATCH}
         ca='openssl req -x509 -nodes -days 30 -newkey ec -pkeyopt ec_paramgen_curve:P-256'
         $ca -keyout ca.key -out ca.pem -subj '/O=Weir Test Lab/CN=Weir Test Root' 2>/dev/null
         leaf() {{
             openssl req -nodes -newkey $3 -keyout $1.key -subj \"/O=Weir Test Lab/CN=$2\" 2>/dev/null |
             openssl x509 -req -days 30 -CA ca.pem -CAkey ca.key -CAcreateserial -out $1.pem -extfile $1.ext \
                2>/dev/null
         }}\n"
    );
    for Site { name, .. } in SITES {
        let (_, other) = name.split_once('.').unwrap_or(("", name));
        for (kind, key) in [("ec", "ec -pkeyopt ec_paramgen_curve:P-256"), ("rsa", "rsa:2048")] {
            script += &format!(
                "echo 'subjectAltName=DNS:{name},DNS:static.{other},DNS:rough.{other},DNS:vlan.{other}' \
                    > {name}.{kind}.ext
                 leaf {name}.{kind} {name} '{key}'\n"
            );
        }
    }
    script +=
        "ssh-keygen -q -t ed25519 -N '' -C '' -f host.key; ssh-keygen -q -t ed25519 -N '' -C '' -f user.key";
    sh(&script)?;
    Ok(())
}

/// Files to download: incompressible, and the same bytes in every recording.
pub fn objects(sizes: &[(&str, usize)]) -> Result {
    let mut random = weir_testing::Random::new(42);
    for (name, bytes) in sizes {
        let content: Vec<u8> = (0..*bytes).map(|_| random.bits() as u8).collect();
        write(Path::new(SCRATCH).join("www").join(name), content)?;
    }
    write(Path::new(SCRATCH).join("www/index.html"), "<title>Weir</title><p>A low dam that measures water.\n")
}

/// Runs nginx in the foreground; `requests_per_connection_max` is its directive `keepalive_requests`.
pub fn nginx(requests_per_connection_max: u32, workers: u32, more_addresses: &[String]) -> Result<Child> {
    let mut conf = format!(
        "daemon off; user root; worker_processes {workers}; pid {SCRATCH}/nginx.pid;
         error_log {SCRATCH}/nginx-error.log info; events {{ worker_connections 8192; }}
         http {{
            log_format lab '{ACCESS_LOG}'; access_log {SCRATCH}/nginx-access.log lab buffer=64k flush=200ms;
            default_type application/octet-stream; sendfile on; tcp_nopush on; reset_timedout_connection on;
            keepalive_requests {requests_per_connection_max}; client_body_temp_path {SCRATCH}/body;
            proxy_temp_path {SCRATCH}/p; fastcgi_temp_path {SCRATCH}/f; uwsgi_temp_path {SCRATCH}/u;
            scgi_temp_path {SCRATCH}/s;\n"
    );
    for (n, site) in SITES.iter().enumerate() {
        let http2 = if site.http2 { "http2" } else { "" };
        let more: Vec<&str> =
            if n == 0 { more_addresses.iter().map(String::as_str).collect() } else { vec![] };
        let listens: String = site
            .addresses
            .iter()
            .chain(&more)
            .map(|a| format!("listen {a}:80 backlog=4096; listen {a}:443 ssl {http2} backlog=4096; "))
            .collect();
        conf += &format!(
            "server {{ server_name {0}; {listens} root {SCRATCH}/www; {1}
                ssl_certificate {SCRATCH}/{0}.ec.pem; ssl_certificate_key {SCRATCH}/{0}.ec.key;
                ssl_certificate {SCRATCH}/{0}.rsa.pem; ssl_certificate_key {SCRATCH}/{0}.rsa.key;
                location /upload {{ client_max_body_size 1m; return 204; }} }}\n",
            site.name, site.tls
        );
    }
    conf += "}\n";
    write(format!("{SCRATCH}/nginx.conf"), conf)?;
    let child = spawn("server", &format!("nginx -e {SCRATCH}/nginx-error.log -c {SCRATCH}/nginx.conf"))?;
    await_port("198.51.100.10:443")?;
    Ok(child)
}

/// dnsmasq answers for the lab's zones: NXDOMAIN for unknown names inside them, REFUSED outside.
pub fn dnsmasq() -> Result<Child> {
    let child = spawn(
        "server",
        &format!(
            "dnsmasq --conf-file=/dev/null --keep-in-foreground --bind-interfaces \
             --listen-address=198.51.100.10,2001:db8:2::10 --no-resolv --no-hosts --user=root --group=root \
             --pid-file= --log-queries --log-facility={SCRATCH}/dnsmasq.log \
             --local=/example.com/ --local=/example.org/ --local=/example.net/ \
             --host-record=www.example.com,198.51.100.10,2001:db8:2::10 \
             --host-record=api.example.org,198.51.100.11,2001:db8:2::11 \
             --host-record=shop.example.net,198.51.100.12 \
             --host-record=vlan.example.com,198.51.100.13,2001:db8:2::13 \
             --host-record=rough.example.com,203.0.113.10 \
             --host-record=void.example.com,198.51.100.99,2001:db8:2::99 \
             --cname=static.example.com,www.example.com \
             --mx-host=example.com,www.example.com,10 \
             --txt-record=long.example.com,{0},{0},{0},{0}",
            "wordsofwater".repeat(18)
        ),
    )?;
    await_port("198.51.100.10:53")?;
    Ok(child)
}

/// An SSH server that accepts the lab's key.
pub fn sshd() -> Result<Child> {
    write(
        format!("{SCRATCH}/sshd.conf"),
        format!(
            "ListenAddress 198.51.100.10\nHostKey {SCRATCH}/host.key\nAuthorizedKeysFile {SCRATCH}/user.key.pub\n\
             PermitRootLogin yes\nStrictModes no\nUsePAM no\nLogLevel VERBOSE\nPidFile none\nPrintMotd no\n"
        ),
    )?;
    let sshd = crate::shell::find("sshd").ok_or("sshd is missing")?;
    let child =
        spawn("server", &format!("{} -D -f {SCRATCH}/sshd.conf -E {SCRATCH}/sshd.log", sshd.display()))?;
    await_port("198.51.100.10:22")?;
    Ok(child)
}

/// Waits until the port is open, without sending data.
pub fn await_port(address: &str) -> Result {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        let listening = output(&mut inside("server", "ss -Hltun"))?;
        if listening.contains(&format!(" {address} ")) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(format!("nobody listens on {address} in the lab after 10 s"))
}
