//! BitTorrent: aria2 seeds a file, aria2 and Transmission download it; opentracker is the tracker.

use super::Service;
use crate::capture::logs::{Row, between, cut, read};
use crate::capture::scenes::Scene;
use crate::shell::Result;

pub const SERVICE: Service = Service {
    scene: Scene {
        name: "bittorrent",
        shows: "aria2 and Transmission fetch a file from aria2, whom a tracker names; one of them encrypted",
        script: SCRIPT,
    },
    tools: &[
        ("aria2c", "aria2"),
        ("transmission-cli", "transmission-cli"),
        ("transmission-create", "transmission-cli"),
        ("opentracker", "opentracker"),
    ],
    files: &[("torrent/done.sh", "#!/bin/sh\nkill $PPID\n"), (
        "torrent/tr-config/settings.json",
        "{\"dht-enabled\": false, \"utp-enabled\": false, \"lpd-enabled\": false, \"pex-enabled\": false, \"encryption\": 0}",
    )],
    stage: "
        mkdir -p torrent/seed torrent/aria torrent/crypt torrent/tr torrent/tr-config
        seq 1 4000 | sed 's/.*/& drops make a stream/' | head -c 50000 > torrent/seed/weir.txt
        transmission-create -t http://198.51.100.10:6969/announce -o weir.torrent torrent/seed/weir.txt > torrent-create.out 2>&1
        transmission-show weir.torrent > torrent-show.out
        sed -n 's/^ *Hash: //p' torrent-show.out > torrent/known; chmod 755 torrent/done.sh",
    servers: &[
        ("server", "opentracker -i 198.51.100.10 -p 6969 -P 6969 -d /run/lab/torrent -w known > opentracker.log 2>&1"),
        (
            "server",
            "sh -c \"sleep 1; exec aria2c --dir=torrent/seed --bt-seed-unverified=true --seed-ratio=0 --listen-port=6881 \
             --enable-dht=false --bt-enable-lpd=false --log=aria2-seed.log --log-level=debug --console-log-level=error \
             --interface=198.51.100.10 weir.torrent\" > aria2-seed.out 2>&1",
        ),
    ],
    listens: &["198.51.100.10:6969"],
    ask: "sleep 1",
    logs: &[("bittorrent", "handshakes (aria2)", handshakes)],
};

const SCRIPT: &str = "
fetch() {
    timeout 9 aria2c --seed-time=0 --listen-port=6882 --enable-dht=false --bt-enable-lpd=false --log=aria2-$1.log --log-level=debug \
        --console-log-level=error --interface=192.0.2.10 --dir=torrent/$1 --bt-tracker-connect-timeout=2 $2 weir.torrent >> aria2.out 2>&1
    cmp torrent/$1/weir.txt torrent/seed/weir.txt
}
fetch aria --bt-require-crypto=false; fetch crypt --bt-require-crypto=true
timeout 20 transmission-cli -et -M -g /run/lab/torrent/tr-config -w /run/lab/torrent/tr -p 6883 -f /run/lab/torrent/done.sh weir.torrent >> transmission.out 2>&1 || true
cmp torrent/tr/weir.txt torrent/seed/weir.txt
";

/// Parses `… CUID#17 - From: 192.0.2.10:53967 handshake peerId=-TR3000-b3xmq8op0yu0,
/// reserved=0000000000100004`, and sent handshakes, `To: …`; encrypted if the same number occurs before `DH
/// initialized`. transmission-show prints the digest.
fn handshakes() -> Result<Vec<Row>> {
    let (log, shown) = (read("aria2-seed.log")?, read("torrent-show.out")?);
    let mut rows = vec![];
    for line in log
        .lines()
        .filter(|line| line.contains(" - From: 192.0.2.10:") && line.contains(" handshake peerId="))
    {
        let number = between(line, "CUID#", " - ");
        let of_it = |what: &str| {
            let what = format!("CUID#{number} - {what}");
            log.lines().find(|line| line.contains(&what))
        };
        let name = |line: &str| printable(between(line, "peerId=", ","));
        rows.push(vec![
            ("client_port", cut(line, "192.0.2.10:", " ")),
            ("info_hash", cut(&shown, "  Hash: ", "\n")),
            ("client", name(line)),
            ("server", of_it("To: 192.0.2.10:").map_or(String::new(), name)),
            ("reserved", cut(line, "reserved=", "\n")),
            ("encrypted", of_it("DH initialized").is_some().to_string()),
        ]);
    }
    Ok(rows)
}

/// The printable text at the start of `A2-1-36-0-%21%F8O`.
fn printable(escaped: &str) -> String {
    let mut text = String::new();
    let mut parts = escaped.split('%');
    text.push_str(parts.next().unwrap_or(""));
    for part in parts {
        let (code, rest) = part.split_at_checked(2).unwrap_or_default();
        match u8::from_str_radix(code, 16) {
            Ok(byte) if byte.is_ascii_graphic() => text.push(char::from(byte)),
            _ => break,
        }
        text.push_str(rest);
    }
    text
}
