//! The scenes of `sessions.pcap`, in order.

use crate::capture::scenes::Scene;

/// Shell functions of all scenes. `get` appends to the clients' HTTP log, which `facts` reads.
pub const PRELUDE: &str = "
cd /run/lab
said='%{local_port} %{method} %{url_effective} %{http_version} %{http_code} %{size_upload} %{size_download}\\n'
get() { curl -sS -o /dev/null --cacert ca.pem -w \"$said\" \"$@\" >> http-clients.out; }
mail() {
    id=$1; shift
    swaks --server mail.example.com --ehlo client.example.com --from alice@example.com \
        --h-Message-Id \"<$id@example.com>\" \"$@\" >> swaks.out 2>&1
}
fails() { want=$1; shift; got=0; \"$@\" >/dev/null 2>&1 || got=$?; test $got = $want; }
www=http://www.example.com
";

pub const SCENES: &[Scene] = &[
    Scene {
        name: "dhcp",
        shows: "an address given, kept and handed back (udhcpc, dnsmasq)",
        script: "
            udhcpc -i net0 -s /run/lab/udhcpc.sh -x hostname:reader -f >udhcpc.out 2>&1 &
            sleep 1; kill -USR1 $!; sleep 2; kill -USR2 $!; sleep 1; kill $!
            ip addr flush dev net0 to 192.0.2.128/25",
    },
    Scene {
        name: "dns",
        shows: "A, AAAA, CNAME, MX, TXT, SRV, PTR, NAPTR, CAA; NXDOMAIN, no data, REFUSED; EDNS with subnet and DO; IPv6; \
                TCP; truncated, then over TCP; two questions on one connection",
        script: "
            dig='dig +short +tries=1'
            for of in 'www A' 'www AAAA' 'static A' 'nosuch A' 'mail AAAA' '_imap._tcp SRV'; do
                set -- $of; $dig $1.example.com $2
            done
            for type in MX TXT NAPTR CAA; do $dig example.com $type; done
            $dig -x 198.51.100.10; $dig -x 2001:db8:2::10; $dig elsewhere.invalid A
            $dig +noedns WWW.Example.COM A; $dig +dnssec www.example.com A
            $dig +subnet=192.0.2.0/24 www.example.com A; $dig @2001:db8:2::10 www.example.com AAAA
            $dig +tcp www.example.com A; $dig +noedns +ignore long.example.com TXT; $dig +bufsize=600 long.example.com TXT
            $dig +tcp +keepopen www.example.com A mail.example.com A",
    },
    Scene {
        name: "http",
        shows: "HTTP/1.1 and 1.0, IPv4 and IPv6: four on one connection, HEAD, ranges, 304, 301, 404, 401 and a password, \
                POST with length and in chunks, Expect: 100-continue, gzip in chunks",
        script: "
            get -4 $www/ -o /dev/null $www/small.bin -o /dev/null $www/page.txt -o /dev/null $www/missing
            get -6 $www/small.bin; get -4 --http1.0 $www/small.bin; get -4 -I $www/page.txt
            get -4 -r 100-299 $www/small.bin; get -4 -H 'If-Modified-Since: Fri, 01 Jan 2038 00:00:00 GMT' $www/small.bin; get -4 -L $www/old
            get -4 $www/private/; get -4 -u alice:weir $www/private/
            get -4 -d 'depth=3&width=40' $www/upload; head -c 9000 www/page.bin | get -4 --data-binary @- $www/upload
            get -4 -H 'Transfer-Encoding: chunked' --data-binary @www/page.bin $www/upload
            get -4 -H 'Expect: 100-continue' --data-binary @www/page.bin $www/upload
            get -4 --compressed $www/page.txt; get -4 $www/ssi/page.shtml -o /dev/null $www/ssi/page.shtml
            get -4 -A 'Weir/1 (lab)' -e $www/page.txt -b 'flow=steady' $www/small.bin?level=3
            get -4 -Z \"$www/small.bin?[1-4]\"",
    },
    Scene {
        name: "http-pipelined",
        shows: "six requests, three under way at a time (h2load)",
        script: "h2load --h1 -n 6 -c 1 -m 3 $www/small.bin >> h2load.out",
    },
    Scene {
        name: "http-proxy",
        shows: "a proxy (tinyproxy): GET of a whole URI; CONNECT, then TLS; CONNECT to a port it refuses",
        script: "
            export http_proxy=http://proxy.example.com:8888 https_proxy=http://proxy.example.com:8888
            get -4 $www/small.bin; get -4 https://www.example.com/small.bin
            get -4 --tls-max 1.2 --http1.1 https://www.example.com/
            fails 56 get -4 https://www.example.com:81/",
    },
    Scene {
        name: "http2",
        shows: "HTTP/2 in clear text: prior knowledge (nginx), three on one connection, five at a time, POST, HEAD, 404; \
                by upgrade (nghttpx)",
        script: "
            h2=http://www.example.com:8080; up=http://www.example.com:8081
            h2() { get -4 --http2-prior-knowledge \"$@\"; }
            h2 $h2/; h2 -d 'depth=3&width=40' $h2/form; h2 -I $h2/page.txt; h2 $h2/missing; h2 --compressed $h2/page.txt
            h2load -n 10 -c 1 -m 5 $h2/small.bin >> h2load.out
            nghttp -n $h2/page.txt $h2/small.bin $h2/
            get -4 --http2 $up/page.txt; nghttp -n -u $up/small.bin",
    },
    Scene {
        name: "ssh",
        shows: "OpenSSH: a session with what it likes best, one with other algorithms",
        script: "
            shell() { ssh -4 -v -i user.key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
                -o IdentitiesOnly=yes -F none \"$@\" root@www.example.com 'seq 1 100' >/dev/null 2>>ssh.out; }
            shell
            shell -c aes128-ctr -m hmac-sha2-256 -o KexAlgorithms=curve25519-sha256 -C",
    },
    Scene {
        name: "smtp",
        shows: "mail to exim: by curl; by swaks, to two and to nobody; AUTH PLAIN; two in one connection and BDAT by exim \
                itself; STARTTLS",
        script: "
            printf 'From: Alice <alice@example.com>\\r\\nTo: Bob <bob@example.com>\\r\\nSubject: Water level\\r\\n\
                Date: Sun, 22 Nov 2026 07:00:00 +0000\\r\\nMessage-ID: <level@example.com>\\r\\n\\r\\n3 m\\r\\n' > level.eml
            curl -sS smtp://mail.example.com/client.example.com --mail-from alice@example.com \
                --mail-rcpt bob@example.com -T level.eml
            mail two --to bob@example.com,carol@example.com --h-Subject 'To two'
            fails 24 mail none --to nobody@example.com
            mail password --to bob@example.com --h-Subject 'With a password' --auth PLAIN --auth-user alice --auth-password weir
            for n in 1 2; do
                printf 'From: alice@example.com\\nTo: bob@example.com\\nSubject: Queued %s\\n\\nfrom MTA to MTA\\n' $n |
                exim4 -C /run/lab/exim-client.conf -odq -f alice@example.com bob@example.com
            done
            exim4 -C /run/lab/exim-client.conf -qqf
            mail secret --to bob@example.com --h-Subject 'In secret' --tls
            curl -sS smtp://mail.example.com/client.example.com --ssl-reqd --cacert mail.pem \
                --mail-from alice@example.com --mail-rcpt carol@example.com -T level.eml
            sleep 1",
    },
    Scene {
        name: "pop3",
        shows: "dovecot, by curl and poplib: a mail fetched, one deleted; AUTH PLAIN and LOGIN, USER; a wrong password; STLS",
        script: "
            curl -sS pop3://bob:weir@mail.example.com/ >> pop3.out; curl -sS pop3://bob:weir@mail.example.com/1 >> pop3.out
            curl -sS pop3://bob:weir@mail.example.com/2 -X DELE -l >> pop3.out
            fails 67 curl -sS pop3://bob:dry@mail.example.com/
            curl -sS --login-options AUTH=LOGIN pop3://carol:weir@mail.example.com/ >> pop3.out
            python3 -c \"
import poplib
box = poplib.POP3('mail.example.com')
print(box.user('carol'), box.pass_('weir'), box.stat(), box.top(1, 2), box.uidl(), box.retr(1), box.quit())
\" >> pop3.out
            curl -sS --ssl-reqd --cacert mail.pem pop3://bob:weir@mail.example.com/ >> pop3.out",
    },
    Scene {
        name: "imap",
        shows: "dovecot, by curl and imaplib: folders listed, a mail read, searched for, moved; a wrong password; STARTTLS",
        script: "
            box=imap://bob:weir@mail.example.com
            curl -sS $box/ >> imap.out; curl -sS \"$box/INBOX;MAILINDEX=1\" >> imap.out
            curl -sS \"$box/INBOX?SUBJECT%20level\" >> imap.out
            fails 67 curl -sS imap://bob:dry@mail.example.com/
            curl -sS --login-options AUTH=LOGIN $box/ -X 'EXAMINE INBOX' >> imap.out
            python3 -c \"
import imaplib
box = imaplib.IMAP4('mail.example.com')
print(box.login('carol', 'weir'), box.create('Old'), box.select('INBOX'), box.fetch('1', '(ENVELOPE BODY[])'))
print(box.copy('1', 'Old'), box.store('1', '+FLAGS', '(\\\\Deleted)'), box.expunge(), box.close(), box.logout())
\" >> imap.out
            curl -sS --ssl-reqd --cacert mail.pem $box/ >> imap.out",
    },
    Scene {
        name: "ftp",
        shows: "vsftpd: listing, download, upload; passive (EPSV, PASV) and active (EPRT, PORT); a missing file; a user \
                that is not let in; AUTH TLS",
        script: "
            ftp=ftp://ftp.example.com; hole=/dev/null
            curl -sS $ftp/pub/ >$hole; curl -sS $ftp/pub/numbers.txt >$hole
            curl -sS --disable-epsv -r 100-199 $ftp/pub/numbers.txt >$hole
            curl -sS -P - $ftp/pub/numbers.txt >$hole; curl -sS -P - --disable-eprt $ftp/pub/numbers.txt >$hole
            curl -sS --ftp-create-dirs -T level.eml $ftp/incoming/new/
            fails 78 curl -sS $ftp/pub/nothing.txt
            fails 67 curl -sS -u alice:weir $ftp/pub/
            curl -sS --ssl-reqd --cacert mail.pem $ftp/pub/numbers.txt >$hole",
    },
    Scene {
        name: "quic",
        shows: "aioquic: version 1; version 2; 1 with 2 on offer; a version that the server has not; Retry",
        script: "
            quic() { $PYTHON quic_client.py 198.51.100.10 $1 www.example.com ca.pem $2 >> quic.out; }
            quic 443 1; quic 8443 2; quic 8443 1,2; quic 443 2,1; quic 9443 1",
    },
    Scene {
        name: "dtls",
        shows: "openssl: DTLS 1.2 with and without a cookie",
        script: "
            dtls() { echo \"asks for $2 at port $1\" >> dtls.out; sleep 0.5 | openssl s_client -dtls1_2 -connect 198.51.100.10:$1 -servername $2 -CAfile ca.pem \
                >> dtls.out 2>dtls.err; }
            dtls 4433 www.example.com; dtls 4434 static.example.com",
    },
    Scene {
        name: "ntp",
        shows: "chrony asks chrony",
        script: "chronyd -Q -u root -t 10 'server 198.51.100.10 iburst maxsamples 3' 'cmdport 0' \
            'pidfile /run/lab/ntp-client.pid' 'bindcmdaddress /' > ntp.out 2>&1",
    },
    Scene {
        name: "stun",
        shows: "coturn: Binding; TURN: an address lent, a channel, data over it",
        script: "
            turnutils_stunclient 198.51.100.10 > stun.out 2>&1
            turnutils_uclient -n 2 -m 1 -c -l 60 -u alice -w weir -e 198.51.100.11 -r 3480 198.51.100.10 > turn-client.out 2>&1",
    },
];
