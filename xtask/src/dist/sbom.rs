//! The list of the program's parts (SBOM), as CycloneDX 1.5 in JSON.
//!
//! Without a time or a random number: the same `Cargo.lock` gives the same file.

use super::parts::{self, Part};
use super::{Options, folder, version};
use crate::shell::{Result, output, read, write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the list.
pub fn make(_options: &Options) -> Result<PathBuf> {
    let parts = parts::all()?;
    let program = parts.get(&parts::program_id()).ok_or("cargo tree does not name the program")?;
    let others = || parts.values().filter(|part| part.id() != program.id());
    let components = joined(others().map(|part| component(part, "library")));
    let uses = joined(parts.values().map(|part| {
        let list = joined(part.uses.iter().map(|id| text(id)));
        format!("{{\"ref\":{},\"dependsOn\":[{list}]}}", text(&part.id()))
    }));
    let sbom = format!(
        "{{\"bomFormat\":\"CycloneDX\",\"specVersion\":\"1.5\",\"version\":1,\n\
         \"metadata\":{{\"component\":{}}},\n\"components\":[\n{components}],\n\"dependencies\":[\n{uses}]}}\n",
        component(program, "application"),
    );
    let file = folder()?.join(format!("weir-{}.cdx.json", version()));
    write(&file, sbom)?;
    Ok(file)
}

/// Checks that the list is JSON, and names what is in every build.
pub fn test(file: &Path, _options: &Options) -> Result {
    output(Command::new("python3").args(["-m", "json.tool"]).arg(file).arg("/dev/null"))?;
    let sbom = read(file)?;
    match ["weir-engine", "clap", "luajit-src", "rust-std"].iter().find(|name| !sbom.contains(&text(name))) {
        Some(missing) => Err(format!("{} does not name {missing}", file.display())),
        None => Ok(()),
    }
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",\n")
}

fn component(part: &Part, kind: &str) -> String {
    let mut object = format!(
        "{{\"type\":{},\"bom-ref\":{},\"name\":{},\"version\":{}",
        text(kind),
        text(&part.id()),
        text(&part.name),
        text(&part.version),
    );
    if let Some(sum) = &part.checksum {
        object += &format!(",\"hashes\":[{{\"alg\":\"SHA-256\",\"content\":{}}}]", text(sum));
    }
    if !part.license.is_empty() {
        object += &format!(",\"licenses\":[{{\"expression\":{}}}]", text(&part.license));
    }
    // Only crates with a checksum are on crates.io.
    if part.checksum.is_some() {
        let version = part.version.replace('+', "%2B");
        object += &format!(",\"purl\":{}", text(&format!("pkg:cargo/{}@{version}", part.name)));
    }
    if !part.repository.is_empty() {
        let url = text(&part.repository);
        object += &format!(",\"externalReferences\":[{{\"type\":\"vcs\",\"url\":{url}}}]");
    }
    object + "}"
}

/// A string of JSON.
fn text(text: &str) -> String {
    let mut quoted = "\"".to_string();
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            _ if letter < ' ' => quoted += &format!("\\u{:04x}", u32::from(letter)),
            _ => quoted.push(letter),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped() {
        assert_eq!(text("a\"\\\n"), "\"a\\\"\\\\\\u000a\"");
    }
}
