//! Bytes of connections and contents of files are those of tshark, over the captures of the project and a
//! sample of the shared ones. `cargo xtask bench "Agreement with tshark"` compares all.

use crate::cli::scratch;
use std::path::{Path, PathBuf};
use weir_testing::tshark::{Compared, KNOWN, ObjectKind, captures, follow, known, objects};

/// Of the shared captures, every so many are in the sample.
const SAMPLED: usize = 6;

/// Captures with many objects, whose export takes tshark longer than all others of the sample.
const SLOW: &[&str] = &["ExamplesTest__pcap_examples__http-packets.pcap"];

fn sample() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = captures(&root.join("../shared/traces"));
    let own =
        ["first-light.pcap", "sessions.pcap", "services.pcap"].map(|name| root.join("examples").join(name));
    own.into_iter().chain(shared.into_iter().step_by(SAMPLED)).collect()
}

/// Compares the sample: its differences are the known ones.
fn compare(what: &str, compare: impl Fn(&Path) -> Option<Compared>) -> Compared {
    let (mut all, mut wrong) = (Compared::default(), vec![]);
    for capture in sample() {
        let shown = capture.display().to_string();
        if SLOW.iter().any(|name| shown.ends_with(name)) {
            continue;
        }
        let Some(mut one) = compare(&capture) else {
            eprintln!("tshark or python3 is not installed");
            return all;
        };
        let different = std::mem::take(&mut one.different);
        match known(what, &capture) {
            Some((_, count)) if different.len() == count => {}
            Some((index, count)) => {
                let found = different.len();
                wrong.push(format!("{shown}: {found} differences instead of {count}: {}", KNOWN[index].2));
            }
            None => wrong.extend(different.iter().map(|text| format!("{shown}: {text}"))),
        }
        all.add(one);
    }
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
    assert!(all.equal > 4, "{what}: {} were compared", all.equal);
    all
}

#[test]
fn followed_connections_are_those_that_tshark_follows() {
    let weir = Path::new(env!("CARGO_BIN_EXE_weir"));
    compare("follow", |capture| follow(weir, capture));
}

#[test]
fn contents_are_the_objects_that_tshark_exports() {
    let (weir, folder) = (Path::new(env!("CARGO_BIN_EXE_weir")), scratch("tshark"));
    for kind in ObjectKind::ALL {
        compare(kind.name(), |capture| objects(weir, capture, kind, &folder));
    }
}
