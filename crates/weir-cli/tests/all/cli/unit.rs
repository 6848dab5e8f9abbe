//! The unit of systemd that the project ships. Without `systemd-analyze` the test is skipped, with a message.

use crate::cli::{scratch, text, text_of};
use std::path::Path;
use std::process::Command;

#[test]
fn the_unit_is_valid_and_hardened() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/weir@.service");
    let unit = std::fs::read_to_string(unit).expect("the project's unit");
    // Its program must exist.
    let installed = unit.replace("/usr/bin/weir", env!("CARGO_BIN_EXE_weir"));
    assert!(installed != unit);
    let path = scratch("weir@edge.service");
    std::fs::write(&path, installed).expect("a scratch file");
    let analyze = |args: &[&str]| Command::new("systemd-analyze").args(args).arg(&path).output();
    let Ok(verified) = analyze(&["verify"]) else {
        eprintln!("skipped: the_unit_is_valid_and_hardened needs systemd-analyze (systemd)");
        return;
    };
    let said = text(&verified.stdout) + &text_of(&verified);
    let about_unit: Vec<&str> = said.lines().filter(|line| line.contains("weir@")).collect();
    assert!(verified.status.success() && about_unit.is_empty(), "{said}");
    // From 0 (safe) to 100: units without any hardening have 96.
    let rated = analyze(&["security", "--offline=true", "--threshold=25"]).expect("it was found");
    assert!(rated.status.success(), "{}", text(&rated.stdout));
}
