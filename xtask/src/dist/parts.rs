//! What the program is made of: the crates in it, with versions, licenses and checksums.
//!
//! From `cargo tree` and `Cargo.lock`, which are read line by line. Crates that only run during the build are
//! left out, but those whose sources are compiled into the program.

use super::program;
use crate::shell::{Result, output, read, root};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

/// Crates of the build that carry the sources of a library for the program.
const CARRIERS: &[&str] = &["luajit-src"];
/// The name of the standard library.
const RUST: &str = "rust-std";
/// The platform of the packages. Others have crates of their own.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// A crate in the program.
pub struct Part {
    pub name: String,
    pub version: String,
    /// An expression of SPDX. Empty: not stated.
    pub license: String,
    pub repository: String,
    /// SHA-256 of the sources on crates.io. `None`: a crate of this project, or of Rust.
    pub checksum: Option<String>,
    /// The identities of the crates that it uses.
    pub uses: BTreeSet<String>,
}

impl Part {
    /// The identity: name and version.
    pub fn id(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    /// Whether the crate is one of this project.
    pub fn is_own(&self) -> bool {
        self.name == "weir" || self.name.starts_with("weir-")
    }
}

/// The identity of the program itself.
pub fn program_id() -> String {
    format!("weir-cli@{}", super::version())
}

/// All parts by their identities; the program itself is one.
pub fn all() -> Result<BTreeMap<String, Part>> {
    let checksums = checksums(&read(root().join("Cargo.lock"))?);
    let mut parts = BTreeMap::new();
    let tree = tree("normal,no-proc-macro")?;
    // The crates on the way from the program to the line before.
    let mut path: Vec<String> = vec![];
    for line in tree.lines() {
        let (depth, part) = part(line, &checksums).ok_or_else(|| format!("cargo tree says {line}"))?;
        let id = part.id();
        path.truncate(depth);
        if let Some(above) = path.last().and_then(|above: &String| parts.get_mut(above)) {
            let above: &mut Part = above;
            above.uses.insert(id.clone());
        }
        path.push(id.clone());
        parts.entry(id).or_insert(part);
    }
    for line in self::tree("normal,build,no-proc-macro")?.lines() {
        if let Some((_, part)) = part(line, &checksums).filter(|(_, part)| CARRIERS.contains(&&*part.name)) {
            parts.entry(part.id()).or_insert(part);
        }
    }
    let rust = standard_library()?;
    parts.insert(rust.id(), rust);
    // Nothing but the program names these as its parts.
    let others: BTreeSet<String> = parts.values().filter(|part| is_added(part)).map(Part::id).collect();
    if let Some(program) = parts.get_mut(&program_id()) {
        program.uses.extend(others);
    }
    Ok(parts)
}

fn tree(edges: &str) -> Result<String> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root()).args(["tree", "--locked", "--package", "weir-cli"]);
    cargo.args(["--features", program::FEATURES, "--target", PLATFORM, "--edges", edges]);
    output(cargo.args(["--prefix", "depth", "--format", "|{p}|{l}|{r}|"]))
}

/// `DEPTH|NAME vVERSION (WHERE)|LICENSE|REPOSITORY| (*)`.
fn part(line: &str, checksums: &BTreeMap<String, String>) -> Option<(usize, Part)> {
    let mut fields = line.split('|');
    let depth = fields.next()?.parse().ok()?;
    let mut words = fields.next()?.split(' ');
    let (name, version) = (words.next()?.to_string(), words.next()?.strip_prefix('v')?.to_string());
    // Old packages separate licenses by a slash.
    let license = fields.next()?.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ");
    let repository = fields.next()?.to_string();
    let checksum = checksums.get(&format!("{name}@{version}")).cloned();
    Some((depth, Part { name, version, license, repository, checksum, uses: BTreeSet::new() }))
}

/// The checksums in `Cargo.lock`.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let value = |package: &str, key: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.map(|value| value.trim_end_matches('"').to_string())
    };
    let packages = lock.split("[[package]]").skip(1);
    let sum = |package: &str| {
        let id = format!("{}@{}", value(package, "name")?, value(package, "version")?);
        Some((id, value(package, "checksum")?))
    };
    packages.filter_map(sum).collect()
}

fn is_added(part: &Part) -> bool {
    part.name == RUST || CARRIERS.contains(&&*part.name)
}

/// The standard library, which is in every program.
fn standard_library() -> Result<Part> {
    let said = output(Command::new("rustc").current_dir(root()).arg("--version"))?;
    let version = said.split(' ').nth(1).unwrap_or("unknown").to_string();
    Ok(Part {
        name: RUST.to_string(),
        version,
        license: "MIT OR Apache-2.0".to_string(),
        repository: "https://github.com/rust-lang/rust".to_string(),
        checksum: None,
        uses: BTreeSet::new(),
    })
}

/// The names and licenses of all parts of others, and the texts that come with their sources, each text once.
/// Most licenses ask that their text goes with the program.
pub fn notices(parts: &BTreeMap<String, Part>, is_static: bool) -> String {
    let mut text = "Weir contains these libraries.\n\n".to_string();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for part in parts.values().filter(|part| !part.is_own()) {
        text += &format!("{} {}: {}\n", part.name, part.version, part.license);
        for license in license_texts(part) {
            texts.entry(license).or_default().push(part.id());
        }
    }
    if is_static {
        text += "glibc: LGPL-2.1-or-later. docs/install.md in Weir's sources has the command that links \
                 the program with another one.\n";
    }
    for (license, of) in texts {
        text += &format!("\n{}\n{}\n\n{}\n", "-".repeat(80), of.join(", "), license.trim_end());
    }
    text
}

/// The licenses in the sources of a crate, which cargo has unpacked.
fn license_texts(part: &Part) -> Vec<String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let Some(registries) = home.and_then(|home| home.join("registry/src").read_dir().ok()) else {
        return vec![];
    };
    let sources =
        registries.flatten().map(|entry| entry.path().join(format!("{}-{}", part.name, part.version)));
    let files = sources.filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
    let is_license =
        |name: &str| ["LICENSE", "LICENCE", "COPYING", "NOTICE"].iter().any(|word| name.starts_with(word));
    let mut paths: Vec<PathBuf> = files
        .filter(|entry| is_license(&entry.file_name().to_string_lossy().to_uppercase()))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths.iter().filter(|path| path.is_file()).filter_map(|path| read(path).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cargo_tree_are_parts() {
        let sums =
            checksums("version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"5f\"\n");
        let (depth, part) =
            part("12|a v1.0.0 (proc-macro)|MIT/Apache-2.0|https://x| (*)", &sums).expect("a part");
        assert_eq!((depth, part.id().as_str()), (12, "a@1.0.0"));
        assert_eq!((part.license.as_str(), part.repository.as_str()), ("MIT OR Apache-2.0", "https://x"));
        assert_eq!(part.checksum.as_deref(), Some("5f"));
    }
}
