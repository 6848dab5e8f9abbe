//! The scenes of the recording, in order.

/// One scene: a shell script in the client's namespace that must succeed.
pub struct Scene {
    pub name: &'static str,
    pub shows: &'static str,
    pub script: &'static str,
}

/// Routes traffic for `vlan.example.com` over the tagged interface.
pub const ROUTES: &str = "
ip -n client route add 198.51.100.13 via 10.42.0.1
ip -n client -6 route add 2001:db8:2::13 via 2001:db8:42::1
ip -n client route add 203.0.113.0/24 via 192.0.2.1
sleep 1
";

/// Shell functions of all scenes. `fails N COMMAND` requires exit status N.
pub const PRELUDE: &str = "
cd /run/lab
get() { curl -sS -o /dev/null --cacert ca.pem \"$@\"; }
ask() { printf 'GET / HTTP/1.0\\r\\nHost: %s\\r\\n\\r\\n' \"$1\"; sleep 0.3; }
hello() { name=$1; shift; ask $name | openssl s_client -quiet -no_ign_eof -CAfile ca.pem \"$@\" >/dev/null 2>&1; }
fails() { want=$1; shift; got=0; \"$@\" >/dev/null 2>&1 || got=$?; test $got = $want; }
";

pub const SCENES: &[Scene] = &[
    Scene {
        name: "ping",
        shows: "ARP, neighbour discovery, ICMP and ICMPv6 echo",
        script: "ping -q -c 3 -i 0.2 198.51.100.10; ping -q -c 3 -i 0.2 2001:db8:2::10",
    },
    Scene {
        name: "dns",
        shows: "A, AAAA, MX, CNAME; NXDOMAIN and REFUSED; over IPv6; over TCP; truncated, then over TCP",
        script: "
            dig=\"dig +short +tries=1\"
            $dig www.example.com A; $dig www.example.com AAAA; $dig example.com MX; $dig static.example.com A
            $dig nosuch.example.com A; $dig elsewhere.invalid A
            $dig @2001:db8:2::10 www.example.com A; $dig +tcp api.example.org A
            $dig +noedns long.example.com TXT",
    },
    Scene {
        name: "http",
        shows: "HTTP/1.1 over IPv4 and IPv6: small, three on one connection, HEAD, 404, POST",
        script: "
            get -4 http://www.example.com/; get -6 http://www.example.com/small.bin
            get -4 http://www.example.com/ -o /dev/null http://www.example.com/small.bin \
                -o /dev/null http://www.example.com/page.bin
            get -4 -I http://api.example.org/; get -4 http://api.example.org/missing
            head -c 20000 /dev/zero | get -4 --data-binary @- http://api.example.org/upload",
    },
    Scene {
        name: "http-big",
        shows: "one object of 300 kB; four connections at once",
        script: "
            get -4 http://www.example.com/big.bin
            get -4 -Z -H 'Connection: close' -o /dev/null -o /dev/null -o /dev/null \
                'http://www.example.com/page.bin?[1-4]'",
    },
    Scene {
        name: "tls12",
        shows: "TLS 1.2: ECDSA and RSA certificates, ALPN h2 and http/1.1, IPv6, a second name",
        script: "
            get -4 --tls-max 1.2 --http1.1 https://www.example.com/
            get -4 --tls-max 1.2 --http2 https://www.example.com/page.bin
            get -4 --tls-max 1.2 --ciphers ECDHE-RSA-AES128-GCM-SHA256 https://api.example.org/small.bin
            get -6 --tls-max 1.2 https://api.example.org/
            get -4 --tls-max 1.2 https://static.example.com/",
    },
    Scene {
        name: "tls13",
        shows: "TLS 1.3: ALPN h2 and http/1.1, IPv6, a big object, three requests on one connection",
        script: "
            get -4 --tlsv1.3 --http2 https://www.example.com/; get -4 --tlsv1.3 --http1.1 https://www.example.com/
            get -6 --tlsv1.3 https://www.example.com/page.bin; get -4 --tlsv1.3 https://www.example.com/big.bin
            get -4 --tlsv1.3 --http2 https://www.example.com/ -o /dev/null https://www.example.com/small.bin \
                -o /dev/null https://www.example.com/page.bin",
    },
    Scene {
        name: "tls-resumed",
        shows: "the session resumed by ticket (1.2), by session id (1.2) and by PSK (1.3)",
        script: "
            for how in 'www.example.com tls1_2' 'api.example.org tls1_2' 'www.example.com tls1_3'; do
                set -- $how
                hello $1 -connect $1:443 -servername $1 -$2 -4 -sess_out session
                hello $1 -connect $1:443 -servername $1 -$2 -4 -sess_in session
            done",
    },
    Scene {
        name: "tls-retry",
        shows: "TLS 1.3 with a HelloRetryRequest: the server wants a curve the client sent no share of",
        script: "get -4 --curves X25519:P-384 https://shop.example.net/",
    },
    Scene {
        name: "tls-bare",
        shows: "a ClientHello without server name and without ALPN",
        script: "hello www.example.com -connect 198.51.100.10:443 -noservername",
    },
    Scene {
        name: "tls-failed",
        shows: "the client refuses the certificate (alert); the server refuses the version (alert)",
        script: "
            fails 60 curl -4 --tls-max 1.2 https://www.example.com/
            fails 60 curl -4 --tlsv1.3 https://www.example.com/
            fails 35 get -4 --tlsv1.3 https://api.example.org/",
    },
    Scene {
        name: "ssh",
        shows: "OpenSSH: one session that runs a command",
        script: "ssh -4 -q -i user.key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
            -o IdentitiesOnly=yes -F none root@www.example.com 'seq 1 2000' >/dev/null",
    },
    Scene {
        name: "fragments",
        shows: "echoes of 3000 bytes and UDP datagrams of 4000 bytes to a closed port, v4 and v6, in fragments",
        script: "
            ping -q -c 2 -i 0.2 -s 3000 198.51.100.10; ping -q -c 2 -i 0.2 -s 3000 2001:db8:2::10
            bash -c 'head -c 4000 /dev/zero > /dev/udp/198.51.100.10/9999'
            bash -c 'head -c 4000 /dev/zero > /dev/udp/2001:db8:2::10/9999'",
    },
    Scene {
        name: "silence",
        shows: "SYNs that nobody answers, v4 and v6",
        script: "
            fails 28 get -4 --connect-timeout 2 http://void.example.com/
            fails 28 get -6 --connect-timeout 2 http://void.example.com/",
    },
    Scene {
        name: "refused",
        shows: "SYNs to a closed port answered by RST, v4 and v6",
        script: "
            fails 7 get -4 http://www.example.com:81/
            fails 7 get -6 http://www.example.com:81/",
    },
    Scene {
        name: "aborted",
        shows: "the client goes away in the middle of an object: RST",
        script: "{ curl -4 -sN http://www.example.com/big.bin || true; } | head -c 1000 >/dev/null",
    },
    Scene {
        name: "vlan",
        shows: "802.1Q tag 42: ping, HTTP and TLS over IPv4 and IPv6",
        script: "
            ping -q -c 2 -i 0.2 198.51.100.13; ping -q -c 2 -i 0.2 2001:db8:2::13
            get -4 http://vlan.example.com/page.bin; get -6 http://vlan.example.com/
            get -4 --tlsv1.3 https://vlan.example.com/page.bin; get -6 --tls-max 1.2 https://vlan.example.com/",
    },
    Scene {
        name: "rough",
        shows: "a line that loses and swaps frames: holes, retransmissions, segments out of order",
        script: "
            get -4 http://rough.example.com/big.bin; get -4 --tlsv1.3 https://rough.example.com/big.bin
            head -c 200000 /dev/zero | get -4 --data-binary @- http://rough.example.com/upload",
    },
];

/// The page of a capture: `intro`, the scenes, and the totals.
pub fn describe<'a>(
    name: &str,
    intro: &str,
    scenes: impl IntoIterator<Item = &'a Scene>,
    totals: &[(&str, u64)],
    source: &str,
) -> String {
    let mut page = format!(
        "# {name}.pcap\n\n{intro}\n\n\
         `{name}.expect.json` holds what the servers themselves logged meanwhile; tests compare with it.\n\n\
         | scene | what it shows |\n|---|---|\n"
    );
    for scene in scenes {
        page += &format!("| {} | {} |\n", scene.name, scene.shows);
    }
    page += "\n| what the servers logged | |\n|---|---|\n";
    for (what, count) in totals {
        page += &format!("| {what} | {count} |\n");
    }
    page += &format!(
        "\nThe scenes' commands: `{source}`. Flows are the same in every recording; times, ports, keys\n\
         and the number of acknowledgements differ.\n"
    );
    page
}
