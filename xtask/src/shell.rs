//! Runs other programs, and reports the Debian packages of missing ones.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The result of every chore: nothing, or one message for the user.
pub type Result<T = ()> = std::result::Result<T, String>;

/// Prefixes a system error with `what`.
pub fn said<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> String {
    move |error| format!("{what}: {error}")
}

/// The top folder of the project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Finds `program` on the path or where Debian keeps the system's own.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/sbin"])
        .map(|folder| Path::new(folder).join(program))
        .find(|file| file.is_file())
}

/// Fails with the `apt-get` command for every `(program, package)` that is not installed.
pub fn need(programs: &[(&str, &str)]) -> Result {
    let missing: Vec<_> = programs.iter().filter(|(program, _)| find(program).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.iter().map(|m| m.0).collect::<Vec<_>>().join(", ");
    let packages = missing.iter().map(|m| m.1).collect::<Vec<_>>().join(" ");
    Err(format!("missing: {names}\n  apt-get install --no-install-recommends {packages}"))
}

/// Runs a shell script that must succeed; returns its standard output.
pub fn sh(script: &str) -> Result<String> {
    output(Command::new("sh").args(["-euc", script]))
}

/// Runs a command that must succeed; returns its standard output. The error contains its standard error.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let out = command.stdin(Stdio::null()).output().map_err(said(&shown))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    Err(format!("{shown}\n  {}\n{stdout}{stderr}", out.status))
}

/// Reads a whole text file.
pub fn read(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(said(path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes a whole file and creates its folder.
pub fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result {
    let path = path.as_ref();
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(said(folder.display()))?;
    }
    std::fs::write(path, content).map_err(said(path.display()))
}

/// Clippy as a compiler, if it is installed.
pub fn clippy() -> Option<&'static Path> {
    static CLIPPY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let sysroot = output(Command::new("rustc").args(["--print", "sysroot"])).ok()?;
        Some(Path::new(sysroot.trim()).join("bin/clippy-driver")).filter(|driver| driver.is_file())
    };
    CLIPPY.get_or_init(find).as_deref()
}

/// Cargo, which compiles the project's own crates with Clippy: the crates are compiled once, and checked by
/// the way. All steps of CI run this command, because another compiler would compile everything again.
/// Without Clippy, cargo compiles as always.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    if let Some(driver) = clippy() {
        cargo.env("RUSTC_WORKSPACE_WRAPPER", driver);
    }
    cargo
}

/// Builds `weir` with the cargo that runs this chore; returns the binary.
pub fn build_weir(release: bool) -> Result<PathBuf> {
    match release {
        true => build(&["--package", "weir-cli"], "weir", true),
        // As the step `build` of CI: another choice of packages, targets or features would build everything
        // again.
        false => {
            build(&["--workspace", "--all-targets", "--features", crate::features::FEATURES], "weir", false)
        }
    }
}

/// Builds an example of the library in release mode; returns its path.
pub fn build_example(name: &str) -> Result<PathBuf> {
    build_example_of("weir", name)
}

/// The same of another crate.
pub fn build_example_of(package: &str, name: &str) -> Result<PathBuf> {
    build(&["--package", package, "--all-features", "--example", name], &format!("examples/{name}"), true)
}

/// The folder of everything that is built, in which this program lies.
pub fn target() -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(said("own path"))?;
    let target = own.parent().and_then(Path::parent).ok_or("xtask is not in a target folder")?;
    Ok(target.to_path_buf())
}

fn build(what: &[&str], file: &str, release: bool) -> Result<PathBuf> {
    let target = target()?;
    let mut cargo = cargo();
    cargo.args(["build", "--quiet"]).args(what);
    cargo.arg("--target-dir").arg(&target);
    if release {
        cargo.arg("--release").env_remove("RUSTC_WORKSPACE_WRAPPER");
    }
    output(&mut cargo)?;
    let built = target.join(if release { "release" } else { "debug" }).join(file);
    if built.is_file() { Ok(built) } else { Err(format!("{} was not built", built.display())) }
}
