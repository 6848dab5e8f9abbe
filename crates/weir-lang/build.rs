//! Lists the built-in protocols, so that a new file in `protocols/` needs no other edit.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo");
    let folder = Path::new(&root).join("../../protocols");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = std::fs::read_dir(&folder).expect("the folder of protocols is part of the repository");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "weir"));
    files.sort();
    let mut list = String::from(
        "/// File name and text of every protocol that comes with Weir.\nconst BUILTIN: &[(&str, &str)] = &[\n",
    );
    for file in &files {
        let name = file.file_name().expect("files have names").to_string_lossy();
        writeln!(list, "    (\"protocols/{name}\", include_str!({:?})),", file.display().to_string())
            .expect("a String takes all");
    }
    list.push_str("];\n");
    let out = std::env::var_os("OUT_DIR").expect("set by cargo");
    std::fs::write(Path::new(&out).join("builtin.rs"), list).expect("the output folder is writable");
}
