//! Fresh Debian systems, in which packages are tested. `debootstrap` makes a release once, and the tests
//! unpack it from the cache (`target/dist/cache`).

use super::tree;
use crate::shell::{Result, find, need, output, said, write};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Changed by the package manager itself, or by programs that were installed meanwhile.
const VOLATILE: &[&str] =
    &["dev", "proc", "run", "sys", "tmp", "var/cache", "var/lib/apt", "var/lib/dpkg", "var/log"];
/// Copies of the lists of users that tools for them leave, and the cache of the linker.
const LEFT_OVER: &[&str] = &["etc/passwd-", "etc/group-", "etc/shadow-", "etc/gshadow-", "etc/ld.so.cache"];

/// A Debian in a directory.
pub struct System {
    pub root: PathBuf,
}

impl System {
    /// A fresh system of this release, in the folder `name` of the products.
    ///
    /// # Errors
    /// `debootstrap` fails: it needs root, and a mirror of Debian.
    pub fn fresh(release: &str, name: &str) -> Result<Self> {
        need(&[("debootstrap", "debootstrap"), ("chroot", "coreutils"), ("tar", "tar")])?;
        let cache = super::folder()?.join("cache");
        fs::create_dir_all(&cache).map_err(said(cache.display()))?;
        let cached = cache.join(format!("{release}-amd64.tar"));
        if !cached.is_file() {
            let root = tree(name)?;
            let debootstrap = find("debootstrap").unwrap_or_else(|| "debootstrap".into());
            output(Command::new(debootstrap).args(["--variant=minbase", release]).arg(&root))?;
            let part = cached.with_extension("part");
            output(
                Command::new("tar").arg("-C").arg(&root).args(["--numeric-owner", "-cf"]).arg(&part).arg("."),
            )?;
            fs::rename(&part, &cached).map_err(said(cached.display()))?;
        }
        let root = tree(name)?;
        output(Command::new("tar").arg("-C").arg(&root).args(["--numeric-owner", "-xpf"]).arg(&cached))?;
        let system = Self { root };
        // Names of mirrors are looked up as on this machine.
        let _ = fs::copy("/etc/resolv.conf", system.root.join("etc/resolv.conf"));
        Ok(system)
    }

    /// A command in the system, as root, or as `USER:GROUP`.
    fn command(&self, user: &str, words: &[&str]) -> Command {
        let mut command = Command::new(find("chroot").unwrap_or_else(|| "chroot".into()));
        command.arg(format!("--userspec={user}")).arg(&self.root).args(words).stdin(Stdio::null());
        command.env_clear().env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C.UTF-8");
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/root");
        command
    }

    /// Runs a command as root; it must succeed. Returns its output.
    pub fn run(&self, words: &[&str]) -> Result<String> {
        output(&mut self.command("root:root", words))
    }

    /// The same as another user, `USER:GROUP`.
    pub fn run_as(&self, user: &str, words: &[&str]) -> Result<String> {
        output(&mut self.command(user, words))
    }

    /// Runs a command as another user, whatever its status is.
    pub fn try_as(&self, user: &str, words: &[&str]) -> Result<Output> {
        self.command(user, words).output().map_err(said("chroot"))
    }

    /// Runs a script of the shell as root.
    pub fn sh(&self, script: &str) -> Result<String> {
        self.run(&["sh", "-euc", script])
    }

    /// Puts an answer to a question of debconf before the installation.
    pub fn preseed(&self, question: &str, kind: &str, answer: &str) -> Result {
        write(self.root.join("tmp/answers"), format!("weir {question} {kind} {answer}\n"))?;
        self.run(&["debconf-set-selections", "/tmp/answers"]).map(drop)
    }

    /// The paths of all files, and the users and groups, that a package may leave.
    pub fn state(&self) -> Result<BTreeSet<String>> {
        let mut state = BTreeSet::new();
        self.walk(Path::new(""), &mut state)?;
        for file in ["etc/passwd", "etc/group"] {
            let text = fs::read_to_string(self.root.join(file)).map_err(said(file))?;
            state.extend(text.lines().map(|line| format!("{file}: {line}")));
        }
        let of_package = |name: &str| name.starts_with("weir");
        let info = self.root.join("var/lib/dpkg/info");
        for entry in fs::read_dir(&info).map_err(said(info.display()))?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            state.extend(of_package(&name).then(|| format!("var/lib/dpkg/info/{name}")));
        }
        Ok(state)
    }

    fn walk(&self, below: &Path, state: &mut BTreeSet<String>) -> Result {
        let folder = self.root.join(below);
        for entry in fs::read_dir(&folder).map_err(said(folder.display()))?.flatten() {
            let path = below.join(entry.file_name());
            let name = path.display().to_string();
            if VOLATILE.contains(&&*name) || LEFT_OVER.contains(&&*name) {
                continue;
            }
            state.insert(name);
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.walk(&path, state)?;
            }
        }
        Ok(())
    }

    /// Removes the directory.
    pub fn remove(self) -> Result {
        fs::remove_dir_all(&self.root).map_err(said(self.root.display()))
    }
}
