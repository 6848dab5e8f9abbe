//! `cargo xtask wheel`, `cargo xtask python-tests`, `cargo xtask spark-tests`: the Python package `weir`, of
//! the crate `weir-py`.
//!
//! Tools come from PyPI into a virtual environment below `target`; no package of the system is needed beside
//! Python with `venv`.

use crate::shell::{Result, build_weir, find, output, root, said, target};
use crate::skips;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What builds the wheel.
const BUILDERS: &[&str] = &["maturin>=1.16,<2"];

/// What the tests use: readers of Arrow, inputs, notebooks, and checkers of types.
const TESTERS: &[&str] = &[
    "pytest",
    "mypy",
    "pyright",
    "pandas-stubs",
    "pyarrow",
    "polars>=2",
    "pandas>=3",
    "duckdb",
    "fsspec",
    "aiohttp",
    "tqdm",
    "matplotlib",
    "scikit-learn",
    "nbclient",
    "ipykernel",
];

/// What the tests of the data source of Spark use: Spark, which needs Java 17 or later, and Sail, which runs
/// the same programs. Sail 0.7 takes clients of Spark up to 4.2, and these take pandas below 3.
const SPARKS: &[&str] =
    &["pytest", "pyspark[connect]>=4.2,<4.3", "pysail>=0.7", "pyarrow", "pandas<3", "fsspec", "aiohttp"];

/// Builds the wheel in `target/wheels`; `--debug`: without optimisation.
pub fn wheel(args: &[String]) -> Result {
    let is_debug = args.iter().any(|word| word == "--debug");
    let wheel = build(if is_debug { "dev" } else { "release" }, &[])?;
    println!("{}", wheel.display());
    Ok(())
}

/// Installs a wheel into a fresh virtual environment, without any other package, and asks it a question.
pub fn test_wheel(wheel: &Path) -> Result {
    let folder = target()?.join("dist/wheel-test");
    let _ = std::fs::remove_dir_all(&folder);
    output(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    let python = folder.join("bin/python");
    output(Command::new(&python).args(["-m", "pip", "install", "-q", "--no-deps"]).arg(wheel))?;
    let text =
        "import weir; print([row.server_name for row in weir.read('examples/first-light.pcap').tls()])";
    let names = output(Command::new(&python).current_dir(root()).args(["-c", text]))?;
    if names.contains("shop.example.net") { Ok(()) } else { Err(format!("the names of TLS are {names}")) }
}

/// Runs the tests, doctests and notebooks of the package, and the checkers of types. The library is that of
/// the workspace, as CI has built it; `--wheel`: builds and installs the wheel instead, with optimisation.
/// Further words are arguments of pytest, which then runs alone.
pub fn tests(args: &[String]) -> Result {
    let (flags, words): (Vec<_>, Vec<_>) = args.iter().partition(|word| *word == "--wheel");
    let python = environment("python", TESTERS)?;
    let weir = build_weir(false)?;
    let folder = if flags.is_empty() { in_place("python")? } else { installed(&python)? };
    let package = root().join("crates/weir-py");
    let config = package.join("pyproject.toml");
    let run_in = |place: &Path, words: &[&str]| {
        let mut command = Command::new(&python);
        command.current_dir(place).env("WEIR", &weir).env("PYTHONPATH", &folder).env("MYPYPATH", &folder);
        command.args(["-m"]).args(words);
        command
    };
    // Doctests are those of the complete package: its native part is not in the source tree. Examples of
    // captures are named from the top folder.
    let mut pytest = run_in(&root(), &["pytest", "-p", "no:cacheprovider", "-c"]);
    pytest.arg(&config).arg("--rootdir").arg(root());
    pytest.args(["--pyargs", "weir", "crates/weir-py/tests", "docs/python.md"]).args(&words);
    pytest.args(["--ignore", "crates/weir-py/tests/spark", "--ignore"]).arg(folder.join("weir/spark.py"));
    run_pytest(&mut pytest)?;
    if !words.is_empty() {
        return Ok(());
    }
    run(&mut run_in(&package, &["mypy", "python/weir"]))?;
    run(&mut run_in(
        &package,
        &[
            "mypy.stubtest",
            "weir",
            "--concise",
            "--mypy-config-file",
            "pyproject.toml",
            "--allowlist",
            "tests/stubtest.txt",
        ],
    ))?;
    run(&mut run_in(&package, &["pyright", "--pythonpath", &python.to_string_lossy()]))
}

/// Runs the tests of the data source of Spark, on this machine. The library is that of the workspace. Words
/// are arguments of pytest.
pub fn spark_tests(words: &[String]) -> Result {
    find("java")
        .ok_or("java is not installed\n  apt-get install --no-install-recommends openjdk-17-jre-headless")?;
    let python = environment("spark", SPARKS)?;
    let (weir, folder) = (build_weir(false)?, in_place("spark")?);
    let tests = root().join("crates/weir-py/tests/spark");
    let mut pytest = Command::new(&python);
    // Spark starts further interpreters, which must find the package, too.
    let paths = std::env::join_paths([&folder, &tests]).map_err(said("PYTHONPATH"))?;
    pytest.current_dir(root()).env("WEIR", &weir).env("PYTHONPATH", &paths).env("PYSPARK_PYTHON", &python);
    pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir"]).arg(root());
    run_pytest(pytest.arg("crates/weir-py/tests/spark").args(words))
}

/// As [`spark_tests`], unless Java is missing, or packages cannot be installed.
pub fn spark_tests_if_possible(words: &[String]) -> Result {
    let is_possible = find("java").map(drop).ok_or_else(|| "java is not installed".to_string());
    match is_possible.and_then(|()| environment("spark", SPARKS)) {
        Ok(_) => spark_tests(words),
        Err(why) => {
            skips::note(&format!("the data source of Spark: {why}"));
            Ok(())
        }
    }
}

/// As [`tests`], unless packages cannot be installed: without a network, for example.
pub fn tests_if_possible(args: &[String]) -> Result {
    match environment("python", TESTERS) {
        Ok(_) => tests(args),
        Err(why) => {
            skips::note(&format!("the Python package: {why}"));
            Ok(())
        }
    }
}

/// A folder with the package, for the tests of an environment: its sources, and the library that the
/// workspace has built.
fn in_place(environment: &str) -> Result<PathBuf> {
    let folder = target()?.join(format!("{environment}-package"));
    let package = folder.join("weir");
    if package.is_dir() {
        std::fs::remove_dir_all(&package).map_err(said(package.display()))?;
    }
    std::fs::create_dir_all(&package).map_err(said(package.display()))?;
    let sources = root().join("crates/weir-py/python/weir");
    let files = std::fs::read_dir(&sources).map_err(said(sources.display()))?;
    let files = files.filter_map(|entry| entry.ok().map(|entry| entry.path())).filter(|path| path.is_file());
    let library = target()?.join("debug/libweir_py.so");
    for (from, name) in
        files.map(|path| (path.clone(), path.file_name().map(PathBuf::from))).chain([(library, None)])
    {
        let to = package.join(name.unwrap_or_else(|| "_weir.abi3.so".into()));
        std::fs::copy(&from, &to).map_err(said(from.display()))?;
    }
    Ok(folder)
}

/// The folder into which the wheel is installed.
fn installed(python: &Path) -> Result<PathBuf> {
    let (wheel, folder) = (build("release", &[])?, target()?.join("python-wheel"));
    let mut install = Command::new(python);
    install
        .args(["-m", "pip", "install", "-q", "--upgrade", "--no-deps", "--target"])
        .arg(&folder)
        .arg(wheel);
    output(&mut install)?;
    Ok(folder)
}

/// The wheel, with features of Cargo beside those that it always has. Its parts are compiled in the target
/// folder of the workspace.
pub fn build(profile: &str, features: &[&str]) -> Result<PathBuf> {
    let python = environment("python", BUILDERS)?;
    let wheels = target()?.join("wheels");
    let mut command = Command::new(&python);
    command.current_dir(root().join("crates/weir-py")).env("CARGO_TARGET_DIR", target()?);
    command.args(["-m", "maturin", "build", "--quiet", "--locked", "--interpreter"]).arg(&python);
    command.arg("--out").arg(&wheels).args(["--profile", profile]);
    if !features.is_empty() {
        // These replace the features of pyproject.toml.
        command.args(["--features", &[&["pyo3/abi3-py311"], features].concat().join(",")]);
    }
    run(&mut command)?;
    let made = std::fs::read_dir(&wheels)
        .map_err(said(wheels.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()));
    let newest = made
        .filter(|path| path.extension().is_some_and(|end| end == "whl"))
        .max_by_key(|path| path.metadata().and_then(|about| about.modified()).ok());
    newest.ok_or_else(|| format!("maturin made no wheel in {}", wheels.display()))
}

/// An interpreter with all that the package works with, and the folder of the package, compiled with
/// optimisation.
pub fn with_package() -> Result<(PathBuf, PathBuf)> {
    let python = environment("python", TESTERS)?;
    let folder = installed(&python)?;
    Ok((python, folder))
}

/// The interpreter of the virtual environment `name`, with these packages.
///
/// # Errors
/// Python is missing, or a package cannot be installed.
pub fn environment(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let folder = target()?.join(name);
    let python = folder.join("bin/python");
    if !python.is_file() {
        find("python3")
            .ok_or("python3 is not installed\n  apt-get install --no-install-recommends python3-venv")?;
        output(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    }
    // A mark for each list: pip alone takes seconds to find that nothing is missing.
    let mark = folder.join(format!("have-{}", fingerprint(packages)));
    if !Path::new(&mark).is_file() {
        output(Command::new(&python).args(["-m", "pip", "install", "-q"]).args(packages))?;
        std::fs::write(&mark, "").map_err(said(mark.display()))?;
    }
    Ok(python)
}

fn fingerprint(packages: &[&str]) -> String {
    let mut hash = std::hash::DefaultHasher::new();
    packages.hash(&mut hash);
    format!("{:016x}", hash.finish())
}

/// Runs pytest, and notes the tests that it skips.
fn run_pytest(pytest: &mut Command) -> Result {
    let shown = format!("{pytest:?}");
    let out =
        pytest.arg("-rs").stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(said(&shown))?;
    let text = String::from_utf8_lossy(&out.stdout);
    println!("{text}");
    text.lines().filter_map(|line| line.strip_prefix("SKIPPED ")).for_each(skips::note);
    if out.status.success() { Ok(()) } else { Err(format!("{shown}: {}", out.status)) }
}

fn run(command: &mut Command) -> Result {
    let shown = format!("{command:?}");
    let status = command.status().map_err(said(&shown))?;
    if status.success() { Ok(()) } else { Err(format!("{shown}: {status}")) }
}
