//! The Debian package: the program with its pages and completions, units of systemd, and a question at the
//! installation (`dist/debian`).

use super::system::System;
use super::{Options, copy, folder, parts, program, tree, version, works, write_compressed};
use crate::shell::{Result, find, need, output, root, said, write};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The releases of Debian in which the package is tested. A package that is built in the first one runs in
/// both.
const RELEASES: &[&str] = &["bookworm", "trixie"];
/// What is installed besides the program: source, place in a Debian system.
const FILES: &[(&str, &str)] = &[
    ("dist/weir@.service", "usr/lib/systemd/system/weir@.service"),
    ("dist/weir-record@.service", "usr/lib/systemd/system/weir-record@.service"),
    ("dist/weir.sysusers", "usr/lib/sysusers.d/weir.conf"),
    ("dist/debian/copyright", "usr/share/doc/weir/copyright"),
    ("dist/debian/lintian-overrides", "usr/share/lintian/overrides/weir"),
    ("dist/af_xdp.conf", "usr/share/doc/weir/examples/af_xdp.conf"),
    ("examples/first-light.pcap", "usr/share/doc/weir/examples/first-light.pcap"),
    ("dist/debian/templates", "DEBIAN/templates"),
];
/// Scripts of the package.
const SCRIPTS: &[&str] = &["config", "postinst", "prerm", "postrm"];
/// Completions: the shell, place in a Debian system.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/weir"),
    ("zsh", "usr/share/zsh/vendor-completions/_weir"),
    ("fish", "usr/share/fish/vendor_completions.d/weir.fish"),
];
/// The question at the installation.
const QUESTION: &str = "weir/capture-by-group";
/// The capture in an installed system.
const CAPTURE: &str = "/usr/share/doc/weir/examples/first-light.pcap";
const MAINTAINER: &str = "The founders of Weir <weir@example.invalid>";

/// The file of the package.
pub fn file() -> Result<PathBuf> {
    Ok(folder()?.join(format!("weir_{}_amd64.deb", version())))
}

/// Makes the package.
pub fn make(options: &Options) -> Result<PathBuf> {
    need(&[("dpkg-deb", "dpkg"), ("gzip", "gzip"), ("strip", "binutils")])?;
    let weir = program::build(options)?;
    let tree = tree("deb")?;
    program::add(&[&weir], &tree, ("usr/bin/weir", "usr/share/man/man1"), COMPLETIONS)?;
    output(
        Command::new("strip")
            .args(["--remove-section=.comment", "--remove-section=.note"])
            .arg(tree.join("usr/bin/weir")),
    )?;
    for page in fs::read_dir(tree.join("usr/share/man/man1")).map_err(said("pages"))?.flatten() {
        output(Command::new("gzip").args(["-9n"]).arg(page.path()))?;
    }
    FILES.iter().try_for_each(|(from, to)| copy(&root().join(from), &tree, to))?;
    for script in SCRIPTS {
        let to = tree.join("DEBIAN").join(script);
        fs::copy(root().join("dist/debian").join(script), &to).map_err(said(to.display()))?;
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).map_err(said(to.display()))?;
    }
    // The administrator's files for the units.
    fs::create_dir_all(tree.join("etc/weir")).map_err(said("etc/weir"))?;
    let documents = tree.join("usr/share/doc/weir");
    write_compressed(&documents.join("third-party.txt"), &parts::notices(&parts::all()?, false))?;
    write_compressed(&documents.join("changelog"), &changelog()?)?;
    output(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(&tree))?;
    write(tree.join("DEBIAN/control"), control(&tree, &weir)?)?;
    write(tree.join("DEBIAN/md5sums"), md5sums(&tree)?)?;
    let package = file()?;
    output(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).arg(&tree).arg(&package))?;
    Ok(package)
}

fn control(tree: &Path, weir: &Path) -> Result<String> {
    let installed_kib = output(Command::new("du").args(["-sk", "--exclude=DEBIAN"]).arg(tree))?;
    Ok(format!(
        "Package: weir\nVersion: {}\nArchitecture: amd64\nMaintainer: {MAINTAINER}\nInstalled-Size: {}\n\
         Depends: libc6 (>= {}), libgcc-s1, libcap2-bin, passwd, debconf (>= 0.5) | debconf-2.0\n\
         Suggests: libhyperscan5, libndpi4.2\nSection: net\nPriority: optional\n\
         Description: engine for questions about network traffic\n \
         Weir compiles a question about packets, streams, connections and sessions\n \
         into one native program, and runs it over capture files and live links.\n \
         It also records all packets of a link, and answers questions about the past.\n",
        version(),
        installed_kib.split_whitespace().next().unwrap_or("0"),
        libc_version(weir)?,
    ))
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

/// The list of versions. The date is that of the last commit.
fn changelog() -> Result<String> {
    let date = output(Command::new("git").current_dir(root()).args(["log", "-1", "--format=%cD"]));
    // Sources without a repository: a container is built from such ones.
    let date = date.unwrap_or_else(|_| "Thu, 01 Jan 1970 00:00:00 +0000".to_string());
    let version = version();
    Ok(format!(
        "weir ({version}) unstable; urgency=medium\n\n  * Version {version}.\n\n -- {MAINTAINER}  {}\n",
        date.trim()
    ))
}

fn md5sums(tree: &Path) -> Result<String> {
    let script = "find usr etc -type f -print0 | LC_ALL=C sort -z | xargs -0 -r md5sum";
    output(Command::new("sh").current_dir(tree).args(["-euc", script]))
}

/// Tests the package in each release, with each answer to its question.
pub fn test(package: &Path, _options: &Options) -> Result {
    if find("lintian").is_some() {
        let words = ["--fail-on", "error", "--suppress-tags", "bogus-mail-host", "--allow-root"];
        print!("{}", output(Command::new("lintian").args(words).arg(package))?);
    }
    // As the test of weir@.service in weir-cli: from 0 (safe) to 100; units without any hardening have 96.
    if let Some(analyze) = find("systemd-analyze") {
        let words = ["security", "--offline=true", "--threshold=25", "--no-pager"];
        output(Command::new(analyze).args(words).arg(root().join("dist/weir-record@.service")))?;
    }
    for release in RELEASES {
        for answer in [true, false] {
            test_in(package, release, answer).map_err(|why| format!("{release}, answer {answer}: {why}"))?;
            println!("  {release}, may the group capture: {answer}");
        }
    }
    Ok(())
}

fn test_in(package: &Path, release: &str, answer: bool) -> Result {
    let system = System::fresh(release, "debian")?;
    let before = system.state()?;
    copy(package, &system.root, "tmp/weir.deb")?;
    system.preseed(QUESTION, "boolean", &answer.to_string())?;
    system.run(&["apt-get", "update", "-qq"])?;
    system.run(&["apt-get", "install", "-qq", "-y", "--no-install-recommends", "/tmp/weir.deb"])?;
    let nobody = "nobody:nogroup";
    works(&|words| system.run_as(nobody, &[&["weir"], words].concat()), CAPTURE)?;
    for file in ["man/man1/weir.1.gz", "man/man1/weir-flows.1.gz", "doc/weir/third-party.txt.gz"] {
        if !system.root.join("usr/share").join(file).is_file() {
            return Err(format!("{file} is missing"));
        }
    }
    system.run(&["bash", "-n", "/usr/share/bash-completion/completions/weir"])?;
    may_capture(&system, answer)?;
    // The administrator changes the answer, and changes it back.
    for answer in [!answer, answer] {
        system.preseed(QUESTION, "boolean", &answer.to_string())?;
        system.run(&["dpkg-reconfigure", "weir"])?;
        may_capture(&system, answer)?;
    }
    // An upgrade to the same version keeps the answer.
    system.run(&["dpkg", "-i", "/tmp/weir.deb"])?;
    may_capture(&system, answer)?;
    system.run(&["dpkg", "--purge", "weir"])?;
    system.run(&["apt-get", "autoremove", "-qq", "-y", "--purge"])?;
    let after = system.state()?;
    let left: Vec<_> = after.difference(&before).cloned().collect();
    if !left.is_empty() {
        return Err(format!("after the purge there are {}", left.join(", ")));
    }
    if system.sh("debconf-show weir")?.contains("weir/") {
        return Err("after the purge debconf knows the answer".to_string());
    }
    system.remove()
}

/// Whether members of the group, and only these, can capture with `weir-capture`, and everybody can run
/// `weir`.
fn may_capture(system: &System, expected: bool) -> Result {
    let program = "/usr/bin/weir-capture";
    system.run_as("nobody:nogroup", &["weir", "--version"])?;
    if system.root.join(&program[1..]).exists() != expected {
        return Err(format!("{program} is there: {}", !expected));
    }
    if !expected {
        return Ok(());
    }
    let mode = system.run(&["stat", "-c", "%a %U:%G", program])?;
    if mode.trim() != "750 root:weir" {
        return Err(format!("the mode of {program} is {mode}"));
    }
    if system.try_as("nobody:nogroup", &[program, "--version"]).is_ok_and(|ended| ended.status.success()) {
        return Err(format!("others can run {program}"));
    }
    // A packet of the host itself comes through the loopback.
    let script = "{ sleep 1; echo > /dev/udp/127.0.0.1/9; } & \
                  exec weir-capture packets -i lo --limit 1 -q 'udp.port == 9'";
    let seen = system.run_as("nobody:weir", &["timeout", "20", "bash", "-c", script])?;
    if seen.lines().count() == 1 { Ok(()) } else { Err(format!("a member of the group sees {seen:?}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_the_package_are_there() {
        let scripts = SCRIPTS.iter().map(|script| format!("dist/debian/{script}"));
        for from in FILES.iter().map(|(from, _)| from.to_string()).chain(scripts) {
            assert!(root().join(&from).is_file(), "{from}");
        }
    }
}
