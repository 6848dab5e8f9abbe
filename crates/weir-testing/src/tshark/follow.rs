//! `weir follow` and `tshark -z follow,tcp,raw`: the same bytes, in the same turns of the two directions.

use super::{Compared, rows, said, unhex};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Streams that tshark follows in one run.
const STREAMS_MAX: usize = 200;

/// Bytes of one direction without bytes of the other in between. `true`: of the responder, or of tshark's
/// node 1.
type Turn = (bool, Vec<u8>);

/// The bytes of a connection.
#[derive(Debug, Default)]
struct Conversation {
    /// The identifier, or tshark's number.
    name: String,
    /// Address and port of both sides; the second sends the turns with `true`.
    ends: [String; 2],
    turns: Vec<Turn>,
}

impl Conversation {
    fn push(&mut self, is_second: bool, bytes: &[u8]) {
        match self.turns.last_mut() {
            _ if bytes.is_empty() => {}
            Some((side, turn)) if *side == is_second => turn.extend_from_slice(bytes),
            _ => self.turns.push((is_second, bytes.to_vec())),
        }
    }

    /// The number of bytes of each side.
    fn sizes(&self) -> [usize; 2] {
        [false, true]
            .map(|side| self.turns.iter().filter(|turn| turn.0 == side).map(|turn| turn.1.len()).sum())
    }

    /// The same bytes, with the sides in the order of `ends`.
    fn turned_to(mut self, ends: &[String; 2]) -> Self {
        if self.ends != *ends {
            self.ends.reverse();
            self.turns.iter_mut().for_each(|turn| turn.0 = !turn.0);
        }
        self
    }
}

/// Compares the TCP connections of a capture, except those of which bytes are missing. `None`: tshark is not
/// installed.
pub fn follow(weir: &Path, capture: &Path) -> Option<Compared> {
    let mut theirs = by_ends(theirs(capture)?);
    let mut ours = by_ends(ours(weir, capture)?);
    let gaps = with_gaps(weir, capture)?;
    let mut compared = Compared::default();
    let ends: BTreeSet<[String; 2]> = ours.keys().chain(theirs.keys()).cloned().collect();
    for ends in ends {
        let (ours, theirs) =
            (ours.remove(&ends).unwrap_or_default(), theirs.remove(&ends).unwrap_or_default());
        if ours.len() != theirs.len() {
            let [one, other] = &ends;
            compared.different.push(format!(
                "{one} and {other}: {} connections with bytes, {} of tshark",
                ours.len(),
                theirs.len()
            ));
            continue;
        }
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            let theirs = theirs.turned_to(&ours.ends);
            if gaps.contains(&ours.name) {
                compared.with_gaps += 1;
            } else if ours.turns == theirs.turns {
                compared.equal += 1;
            } else {
                let (name, number, sizes) = (&ours.name, &theirs.name, [ours.sizes(), theirs.sizes()]);
                compared.different.push(format!("{name}, stream {number} of tshark: {sizes:?} bytes"));
            }
        }
    }
    Some(compared)
}

fn by_ends(all: Vec<Conversation>) -> BTreeMap<[String; 2], Vec<Conversation>> {
    let mut sorted = BTreeMap::<[String; 2], Vec<Conversation>>::new();
    for conversation in all.into_iter().filter(|one| !one.turns.is_empty()) {
        let mut ends = conversation.ends.clone();
        ends.sort();
        sorted.entry(ends).or_default().push(conversation);
    }
    sorted
}

/// An address and a port: `[fe80::1]:80` or `fe80::1:80`. Weir omits a port of 0.
fn end(text: &str) -> String {
    let text = text.trim().replace(['[', ']'], "");
    text.strip_suffix(":0").map_or(text.clone(), str::to_string)
}

fn theirs(capture: &Path) -> Option<Vec<Conversation>> {
    let fields = ["-T", "fields", "-E", "occurrence=a", "-e", "tcp.stream"].map(OsStr::new);
    let numbers = said("tshark", &[&[OsStr::new("-r"), capture.as_os_str()], &fields[..]].concat())?;
    let numbers = String::from_utf8_lossy(&numbers).into_owned();
    let count = numbers.split([',', '\n']).filter_map(|number| number.parse::<usize>().ok()).max();
    let mut all = vec![];
    let count = count.map_or(0, |last| last + 1);
    for first in (0..count).step_by(STREAMS_MAX) {
        let follow: Vec<OsString> = (first..count.min(first + STREAMS_MAX))
            .map(|number| format!("follow,tcp,raw,{number}").into())
            .collect();
        let mut args = ["-q", "-r"].map(OsStr::new).to_vec();
        args.push(capture.as_os_str());
        follow.iter().for_each(|follow| args.extend([OsStr::new("-z"), follow.as_os_str()]));
        let text = String::from_utf8_lossy(&said("tshark", &args)?).into_owned();
        let mut streams = vec![];
        for line in text.lines() {
            if let Some(filter) = line.strip_prefix("Filter: ") {
                let name = filter.split(' ').next_back().unwrap_or_default().to_string();
                streams.push(Conversation { name, ..Conversation::default() });
            }
            let Some(stream) = streams.last_mut() else { continue };
            match line.split_once(": ") {
                Some(("Node 0", node)) => stream.ends[0] = end(node),
                Some(("Node 1", node)) => stream.ends[1] = end(node),
                Some(_) => {}
                None if line.starts_with('=') => {}
                None => stream.push(line.starts_with('\t'), &unhex(line)),
            }
        }
        // tshark prints the last one first.
        streams.sort_by_key(|stream| stream.name.parse::<usize>().unwrap_or_default());
        all.extend(streams);
    }
    Some(all)
}

fn ours(weir: &Path, capture: &Path) -> Option<Vec<Conversation>> {
    let args = ["tcp", "--as", "hex", "--color", "never", "--idle-timeout", "0", "-q"].map(OsStr::new);
    let given = [OsStr::new("follow"), capture.as_os_str(), OsStr::new("--filter")];
    let text = String::from_utf8_lossy(&said(weir, &[&given, &args[..]].concat())?).into_owned();
    let mut all = vec![];
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let [name, _, orig, ">", resp, ..] = words[..] {
            let ends = [end(orig), end(resp.trim_end_matches(','))];
            all.push(Conversation { name: name.to_string(), ends, turns: vec![] });
        } else if let Some(conversation) = all.last_mut()
            && !line.is_empty()
            && !line.starts_with('[')
        {
            let own = line.strip_prefix("    ");
            // Behind the offset, 16 bytes, with a blank more in the middle.
            let digits = own.unwrap_or(line).get(10..59).unwrap_or_default();
            conversation.push(own.is_some(), &unhex(digits));
        }
    }
    Some(all)
}

/// The connections of which bytes are missing.
fn with_gaps(weir: &Path, capture: &Path) -> Option<BTreeSet<String>> {
    let rows = rows(weir, capture, ["streams", "tcp"], ["uid", "gap_bytes", "stuck_bytes"], &[])?;
    let lacking = rows.into_iter().filter(|[_, gap, stuck]| gap != "0" || stuck != "0");
    Some(lacking.map(|[uid, ..]| uid).collect())
}
