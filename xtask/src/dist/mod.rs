//! `cargo xtask dist`: what users install, in `target/dist`. `PRODUCTS` lists it, one file each.
//!
//! With `--test`, each product is installed into a fresh root, and works there: a virtual environment, a
//! Debian that `debootstrap` makes (`system.rs`), and a directory with nothing but the archive.
//! docs/install.md has what users do with the products.

mod archive;
mod checksums;
mod container;
mod deb;
mod parts;
mod program;
mod sbom;
mod system;
mod wheel;

use crate::shell::{Result, output, said, target, write};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the command line says about all products.
struct Options {
    /// The profile of Cargo.
    profile: String,
    /// Another machine than this one; only the archive is made for others.
    target: Option<String>,
}

/// A product: its name on the command line, how it is made, and how it is tested.
struct Product {
    name: &'static str,
    make: fn(&Options) -> Result<PathBuf>,
    test: fn(&Path, &Options) -> Result,
}

/// The products, in the order in which they are made: a container is made of the package, checksums of all.
const PRODUCTS: &[Product] = &[
    Product { name: "wheel", make: wheel::make, test: wheel::test },
    Product { name: "deb", make: deb::make, test: deb::test },
    Product { name: "archive", make: archive::make, test: archive::test },
    Product { name: "container", make: container::make, test: container::test },
    Product { name: "sbom", make: sbom::make, test: sbom::test },
    Product { name: "checksums", make: checksums::make, test: checksums::test },
];

/// Makes the products that are named, or all; with `--test`, tests them.
pub fn run(args: &[String]) -> Result {
    let mut options = Options { profile: "dist".to_string(), target: None };
    let (mut names, mut is_test) = (vec![], false);
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().cloned().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--test" => is_test = true,
            "--profile" => options.profile = value()?,
            "--target" => options.target = Some(value()?),
            flag if flag.starts_with('-') => {
                return Err(format!(
                    "there is no option {flag}; there are --test, --profile NAME, --target NAME"
                ));
            }
            name => names.push(name),
        }
    }
    if let Some(unknown) = names.iter().find(|name| PRODUCTS.iter().all(|product| product.name != **name)) {
        let known: Vec<&str> = PRODUCTS.iter().map(|product| product.name).collect();
        return Err(format!("there is no product `{unknown}`; there are: {}", known.join(", ")));
    }
    if options.target.is_some() && names != ["archive"] {
        return Err("--target is for the archive: cargo xtask dist archive --target NAME".to_string());
    }
    for product in PRODUCTS.iter().filter(|product| names.is_empty() || names.contains(&product.name)) {
        let made = (product.make)(&options)?;
        println!("{}", made.display());
        if is_test {
            (product.test)(&made, &options)?;
            println!("  tested");
        }
    }
    Ok(())
}

fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// The folder of the products.
fn folder() -> Result<PathBuf> {
    let folder = target()?.join("dist");
    fs::create_dir_all(&folder).map_err(said(folder.display()))?;
    Ok(folder)
}

/// An empty folder for a tree of files.
fn tree(name: &str) -> Result<PathBuf> {
    let tree = folder()?.join(name);
    if tree.exists() {
        fs::remove_dir_all(&tree).map_err(said(tree.display()))?;
    }
    fs::create_dir_all(&tree).map_err(said(tree.display()))?;
    Ok(tree)
}

/// Copies a file into a tree, with the folders above it.
fn copy(from: &Path, tree: &Path, to: &str) -> Result {
    let to = tree.join(to);
    fs::create_dir_all(to.parent().unwrap_or(tree)).map_err(said(to.display()))?;
    fs::copy(from, &to).map(drop).map_err(said(to.display()))
}

/// Packs a folder: the same files make the same archive.
fn pack(parent: &Path, name: &str, archive: &Path) -> Result {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--numeric-owner", "--owner=0", "--group=0", "--mtime=@0", "-I", "gzip -n"]);
    output(tar.arg("-C").arg(parent).arg("-cf").arg(archive).arg(name)).map(drop)
}

/// Writes a file, compressed as Debian wants it.
fn write_compressed(path: &Path, text: &str) -> Result {
    write(path, text)?;
    output(Command::new("gzip").args(["-9nf"]).arg(path)).map(drop)
}

/// Whether an installed program does its main job.
fn works(weir: &dyn Fn(&[&str]) -> Result<String>, capture: &str) -> Result {
    let said = weir(&["--version"])?;
    if !said.contains(version()) {
        return Err(format!("--version says {said}"));
    }
    let build = weir(&["--version", "--verbose"])?;
    if !build.lines().any(|line| line.split_whitespace().eq(["lua", "yes"])) {
        return Err(format!("--version --verbose says {build}"));
    }
    let names = weir(&["tls", capture, "--format", "csv", "--columns", "server_name"])?;
    if !names.contains("shop.example.net") {
        return Err(format!("the names of TLS are {names}"));
    }
    let count = weir(&["packets", "--count", "tcp.port == 443", capture])?;
    match count.trim().parse::<u64>() {
        Ok(1..) => Ok(()),
        _ => Err(format!("the number of packets is {count}")),
    }
}
