//! `cargo xtask dist`: what users install, in `target/dist`: the Python wheel, a Debian package, and an
//! archive with a static binary.
//!
//! With `--test`, each is installed into a fresh root: a virtual environment, a Debian that `debootstrap`
//! makes, and a directory with nothing but the archive.

use crate::python;
use crate::shell::{Result, build_weir, need, output, root, said, target, write};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The target of the static binary.
const STATIC: &str = "x86_64-unknown-linux-musl";
/// The release of Debian in which the package is tested, and the oldest that it is for.
const DEBIAN: &str = "bookworm";
/// What is installed besides the program: source, place in a Debian system.
const FILES: &[(&str, &str)] = &[
    ("dist/weir@.service", "usr/lib/systemd/system/weir@.service"),
    ("dist/weir.sysusers", "usr/lib/sysusers.d/weir.conf"),
    ("LICENSE", "usr/share/doc/weir/copyright"),
    ("README.md", "usr/share/doc/weir/README.md"),
    ("examples/first-light.pcap", "usr/share/doc/weir/examples/first-light.pcap"),
];
/// Completions: the shell, place in a Debian system.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/weir"),
    ("zsh", "usr/share/zsh/vendor-completions/_weir"),
    ("fish", "usr/share/fish/vendor_completions.d/weir.fish"),
];

/// A product: its name on the command line, how it is made, and how it is tested.
struct Product {
    name: &'static str,
    make: fn() -> Result<PathBuf>,
    test: fn(&Path) -> Result,
}

const PRODUCTS: &[Product] = &[
    Product { name: "wheel", make: python::release_wheel, test: python::test_wheel },
    Product { name: "deb", make: deb, test: test_deb },
    Product { name: "archive", make: archive, test: test_archive },
];

/// Makes the products that are named, or all; with `--test`, tests them.
pub fn run(args: &[String]) -> Result {
    let (flags, names): (Vec<&String>, Vec<&String>) = args.iter().partition(|word| word.starts_with("--"));
    if let Some(unknown) = names.iter().find(|name| PRODUCTS.iter().all(|product| product.name != **name)) {
        let known: Vec<&str> = PRODUCTS.iter().map(|product| product.name).collect();
        return Err(format!("there is no product `{unknown}`; there are: {}", known.join(", ")));
    }
    if let Some(unknown) = flags.iter().find(|flag| **flag != "--test") {
        return Err(format!("there is no option {unknown}; there is --test"));
    }
    for product in
        PRODUCTS.iter().filter(|product| names.is_empty() || names.iter().any(|name| *name == product.name))
    {
        let made = (product.make)()?;
        println!("{}", made.display());
        if flags.iter().any(|flag| *flag == "--test") {
            (product.test)(&made)?;
            println!("  installed into a fresh root, and works there");
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
    let _ = fs::remove_dir_all(&tree);
    fs::create_dir_all(&tree).map_err(said(tree.display()))?;
    Ok(tree)
}

/// Copies a file into a tree, with the folders above it.
fn copy(from: &Path, tree: &Path, to: &str) -> Result {
    let to = tree.join(to);
    fs::create_dir_all(to.parent().unwrap_or(tree)).map_err(said(to.display()))?;
    fs::copy(from, &to).map(drop).map_err(said(to.display()))
}

/// Adds the program, its pages and its completions.
fn add_program(weir: &Path, tree: &Path, program: &str, pages: &str, completions: &[(&str, &str)]) -> Result {
    copy(weir, tree, program)?;
    output(Command::new(weir).args(["man", "-d"]).arg(tree.join(pages)))?;
    for (shell, place) in completions {
        let place = tree.join(place);
        fs::create_dir_all(place.parent().unwrap_or(tree)).map_err(said(place.display()))?;
        write(place, output(Command::new(weir).args(["completions", shell]))?)?;
    }
    Ok(())
}

/// The newest version of the C library that the program needs: its symbols say so.
fn libc_version(program: &Path) -> Result<String> {
    let bytes = fs::read(program).map_err(said(program.display()))?;
    let mark = b"GLIBC_2.";
    let minor = |at: usize| {
        let digits: Vec<u8> =
            bytes[at + mark.len()..].iter().copied().take_while(u8::is_ascii_digit).collect();
        String::from_utf8(digits).ok()?.parse::<u32>().ok()
    };
    let places = bytes.windows(mark.len()).enumerate().filter(|(_, window)| window == mark);
    let newest = places.filter_map(|(at, _)| minor(at)).max();
    newest
        .map(|minor| format!("2.{minor}"))
        .ok_or_else(|| "the program names no version of the C library".to_string())
}

/// The Debian package.
fn deb() -> Result<PathBuf> {
    need(&[("dpkg-deb", "dpkg"), ("gzip", "gzip")])?;
    let weir = build_weir(true)?;
    let tree = tree("deb")?;
    add_program(&weir, &tree, "usr/bin/weir", "usr/share/man/man1", COMPLETIONS)?;
    output(Command::new("strip").arg(tree.join("usr/bin/weir")))?;
    for page in fs::read_dir(tree.join("usr/share/man/man1")).map_err(said("pages"))?.flatten() {
        output(Command::new("gzip").args(["-9n"]).arg(page.path()))?;
    }
    FILES.iter().try_for_each(|(from, to)| copy(&root().join(from), &tree, to))?;
    let installed_kib = output(Command::new("du").args(["-sk"]).arg(&tree))?;
    let control = format!(
        "Package: weir\nVersion: {}\nArchitecture: amd64\nMaintainer: The founders of Weir <weir@example.invalid>\n\
         Installed-Size: {}\nDepends: libc6 (>= {}), libgcc-s1\nSuggests: libhyperscan5, libndpi4.2\nSection: net\nPriority: optional\n\
         Description: engine for questions about network traffic\n \
         Weir compiles a question about packets, streams, connections and sessions\n into one native program, and runs it over \
         capture files and live links.\n",
        version(),
        installed_kib.split_whitespace().next().unwrap_or("0"),
        libc_version(&weir)?,
    );
    fs::create_dir_all(tree.join("DEBIAN")).map_err(said("DEBIAN"))?;
    write(tree.join("DEBIAN/control"), control)?;
    let package = folder()?.join(format!("weir_{}_amd64.deb", version()));
    output(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).arg(&tree).arg(&package))?;
    Ok(package)
}

/// The archive with the static binary.
fn archive() -> Result<PathBuf> {
    need(&[("musl-gcc", "musl-tools"), ("tar", "tar")])?;
    let installed = output(Command::new("rustup").args(["target", "list", "--installed"]))?;
    if !installed.lines().any(|line| line == STATIC) {
        output(Command::new("rustup").args(["target", "add", STATIC]))?;
    }
    let built = Command::new("cargo")
        .current_dir(root())
        .args(["build", "--quiet", "--release", "--package", "weir-cli", "--target", STATIC])
        .status()
        .map_err(said("cargo"))?;
    if !built.success() {
        return Err(format!("cargo build --target {STATIC}: {built}"));
    }
    let weir = target()?.join(STATIC).join("release/weir");
    let name = format!("weir-{}-x86_64-linux", version());
    let parent = tree("archive")?;
    let tree = parent.join(&name);
    fs::create_dir_all(&tree).map_err(said(tree.display()))?;
    let completions =
        [("bash", "completions/weir.bash"), ("zsh", "completions/_weir"), ("fish", "completions/weir.fish")];
    add_program(&weir, &tree, "weir", "man", &completions)?;
    output(Command::new("strip").arg(tree.join("weir")))?;
    for file in ["LICENSE", "README.md", "dist/weir@.service", "examples/first-light.pcap"] {
        copy(
            &root().join(file),
            &tree,
            Path::new(file).file_name().and_then(|name| name.to_str()).unwrap_or(file),
        )?;
    }
    let archive = folder()?.join(format!("{name}.tar.gz"));
    output(Command::new("tar").arg("-C").arg(&parent).arg("-czf").arg(&archive).arg(&name))?;
    Ok(archive)
}

/// The package in a Debian of its own.
fn test_deb(package: &Path) -> Result {
    need(&[("debootstrap", "debootstrap"), ("chroot", "coreutils")])?;
    let system = tree("debian")?;
    output(Command::new("debootstrap").args(["--variant=minbase", DEBIAN]).arg(&system))?;
    copy(package, &system, "weir.deb")?;
    let inside = |words: &[&str]| output(Command::new("chroot").arg(&system).args(words));
    inside(&["dpkg", "-i", "/weir.deb"])?;
    works(&|words| inside(&[&["weir"], words].concat()), "/usr/share/doc/weir/examples/first-light.pcap")?;
    for file in ["usr/share/man/man1/weir.1.gz", "usr/share/man/man1/weir-flows.1.gz"] {
        if !system.join(file).is_file() {
            return Err(format!("{file} is missing"));
        }
    }
    inside(&["bash", "-n", "/usr/share/bash-completion/completions/weir"])?;
    inside(&["dpkg", "--purge", "weir"])?;
    let left = system.join("usr/bin/weir").exists();
    let _ = fs::remove_dir_all(&system);
    if left { Err("/usr/bin/weir is still there after the package was removed".to_string()) } else { Ok(()) }
}

/// The archive in a directory with nothing else: no C library, no shell.
fn test_archive(archive: &Path) -> Result {
    need(&[("chroot", "coreutils")])?;
    let system = tree("static")?;
    output(Command::new("tar").arg("-C").arg(&system).args(["--strip-components=1", "-xzf"]).arg(archive))?;
    fs::create_dir_all(system.join("tmp")).map_err(said("tmp"))?;
    works(
        &|words| output(Command::new("chroot").arg(&system).arg("/weir").args(words)),
        "/first-light.pcap",
    )?;
    let _ = fs::remove_dir_all(&system);
    Ok(())
}

/// Whether an installed program does its main job.
fn works(weir: &dyn Fn(&[&str]) -> Result<String>, capture: &str) -> Result {
    let said = weir(&["--version"])?;
    if !said.contains(version()) {
        return Err(format!("--version says {said}"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_products_are_there() {
        for (from, _) in FILES {
            assert!(root().join(from).is_file(), "{from}");
        }
    }
}
