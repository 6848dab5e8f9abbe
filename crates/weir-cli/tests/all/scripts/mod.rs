//! `weir script`: modules that are shipped, the interface of modules, and modules that harm themselves.

mod hostile;
mod interface;
mod modules;
mod reload;
mod traffic;

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const FIRST_LIGHT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/first-light.pcap");
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scripts");
/// With and without the rights of the process.
const MODES: [&[&str]; 2] = [&[], &["--trust"]];

fn weir(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(args).stdin(Stdio::null()).output().expect("the binary was built for this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The rows of a run that succeeds.
fn rows(args: &[&str]) -> Vec<Value> {
    let output = weir(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The rows in one order, as texts.
fn sorted(args: &[&str]) -> Vec<String> {
    let mut rows: Vec<String> = rows(args).iter().map(Value::to_string).collect();
    rows.sort();
    rows
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a directory for tests")
}

/// A file of a script in a folder.
fn script(folder: &Path, text: &str) -> String {
    let path: PathBuf = folder.join("module.lua");
    fs::write(&path, text).expect("a file for tests");
    path.to_str().expect("UTF-8").to_string()
}

fn number(row: &Value, column: &str) -> u64 {
    row[column].as_u64().unwrap_or_else(|| panic!("{column} in {row}"))
}
