//! The known differences from tshark.

use std::path::Path;

/// The captures with one reason for differences: what is compared, the endings of their paths with the
/// numbers of differences, the reason.
pub type Known = (&'static str, &'static [(&'static str, usize)], &'static str);

/// The known differences of a capture: their index in [`KNOWN`], and their number.
pub fn known(what: &str, capture: &Path) -> Option<(usize, usize)> {
    let shown = capture.display().to_string();
    KNOWN.iter().enumerate().filter(|(_, (of, ..))| *of == what).find_map(|(index, (_, places, _))| {
        let place = places.iter().find(|(ending, _)| shown.ends_with(ending));
        place.map(|(_, count)| (index, *count))
    })
}

/// The known differences.
pub const KNOWN: &[Known] = &[
    (
        "follow",
        &[("libpcap/filter__AH-IPcomp-IPv4.pcap", 1)],
        "layer not here: IPComp, which tshark inflates",
    ),
    (
        "follow",
        &[("ndpi/ip_fragmented_garbage.pcap", 1)],
        "flags: the garbage has the flags SYN and FIN, which no receiver accepts; tshark counts the bytes",
    ),
    (
        "follow",
        &[("suricata-verify/tcp-rst-unacked-stream-01-raw.pcap", 1)],
        "reset: the payload of a reset is no part of the stream (RFC 9293, 3.5.3); tshark counts it",
    ),
    (
        "follow",
        &[("zeek/ipv4__fragmented-4.pcap", 1)],
        "overlap: overlapping fragments differ; tshark takes the last copy, Weir's default is the first",
    ),
    (
        "http",
        &[
            ("ndpi/instagram.pcap", 40),
            ("pcapplusplus/ExamplesTest__pcap_examples__http-packets.pcap", 342),
            ("zeek/tcp__reassembly.pcap", 1),
        ],
        "segments: tshark exports single segments, of messages whose header the capture lacks",
    ),
    (
        "http",
        &[("ndpi/1kxun.pcap", 43)],
        "midway: the server's first bytes are inside a body; tshark exports its segments, and goes on at a segment that \
         begins with a header; Weir parses no more of that side",
    ),
    ("http", &[("arkime/sctp-www.pcap", 4)], "layer not here: HTTP over SCTP"),
    (
        "http",
        &[("suricata-verify/http-evader__http-evader-277.pcap", 1)],
        "fold: a folded line that names Transfer-Encoding counts as a header, so the body is not whole; tshark joins the line to the header \
         before",
    ),
    ("http", &[("libpcap/filter__AH-IPcomp-IPv4.pcap", 1)], "layer not here: IPComp, which tshark inflates"),
    (
        "http",
        &[
            ("suricata-verify/http-evader__http-evader-297.pcap", 1),
            ("suricata-verify/http-evader__http-evader-487.pcap", 1),
        ],
        "header: it is invalid; tshark exports the message itself",
    ),
    (
        "http",
        &[("suricata-verify/http-evader__http-evader-437.pcap", 1)],
        "chunks: they are invalid; tshark exports them",
    ),
    (
        "http",
        &[("suricata-verify/http-event-chunk.pcap", 1)],
        "chunks: a blank follows a chunk size; tshark stops there",
    ),
    (
        "http",
        &[("suricata-verify/detect-pcre__detect-pcre-02.pcap", 1)],
        "rest: bytes behind the end of the body; tshark exports them as another object",
    ),
    (
        "http",
        &[("suricata-verify/tcp-urgp-04-2byte-XY__tcp-urgent-2byte-XY.pcap", 1)],
        "urgent: urgent bytes are part of the stream in Weir (RFC 6093); tshark exports the rest of the request as an object",
    ),
    (
        "imf",
        &[("suricata-verify/issue-4220-01-ids__1flowB.pcap", 1)],
        "tshark: its mail lacks bytes of eight lines, so that its base64 is invalid",
    ),
];
