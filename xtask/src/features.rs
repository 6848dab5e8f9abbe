//! `cargo xtask features`: fetches a broker of Kafka with Maven and the modules of an OpenTelemetry collector
//! with pip, compiles `weir` with the features that are off by default, and runs their tests.

use crate::shell::{Result, find, output, root, said, target};
use std::path::Path;
use std::process::Command;

const FETCH: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// gRPC, and the messages of OTLP.
const MODULES: [&str; 2] = ["grpcio", "opentelemetry-proto"];

/// The features compile librdkafka, a client of gRPC, LuaJIT and PCRE2. Clippy checks the workspace with
/// them, and their tests run.
pub const FEATURES: &str = "weir-cli/kafka,weir-cli/otlp,weir-cli/lua,weir-cli/pcre2";
const TESTS: &[&str] = &["kafka", "otlp", "requests", "scripts", "alerts"];

/// Fetches the other ends of the tests, unless they are there, and runs the tests. Those without one are
/// skipped.
pub fn run(_args: &[String]) -> Result {
    for (name, fetch, packages) in [
        ("broker of Kafka", fetch_broker as fn(&Path) -> Result, "maven default-jdk-headless"),
        ("collector of OpenTelemetry", fetch_collector, "python3-pip"),
    ] {
        if let Err(why) = fetch(&target()?) {
            eprintln!("no {name}: {why}\n  apt-get install --no-install-recommends {packages}");
        }
    }
    let tests = TESTS.iter().flat_map(|test| ["--test", test]);
    let args: Vec<&str> =
        ["test", "--quiet", "--workspace", "--features", FEATURES].into_iter().chain(tests).collect();
    cargo(&args)
}

/// Copies the broker and what it needs to `kafka` in the target folder.
fn fetch_broker(target: &Path) -> Result {
    once(&target.join("kafka"), |folder| {
        find("mvn").ok_or("mvn is not installed")?;
        let pom = root().join("crates/weir-cli/tests/kafka/pom.xml");
        let mut mvn = Command::new("mvn");
        mvn.args(["-q", "-B", "-f"]).arg(pom).arg(FETCH);
        mvn.arg(format!("-DoutputDirectory={}", folder.display())).arg("-DincludeScope=runtime");
        output(&mut mvn).map(drop)
    })
}

/// Installs the modules of the collector in `otlp` in the target folder, and nowhere else.
fn fetch_collector(target: &Path) -> Result {
    once(&target.join("otlp"), |folder| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(folder).args(MODULES);
        output(&mut pip).map(drop)
    })
}

/// Fills a folder, unless that was done.
fn once(folder: &Path, fill: impl Fn(&Path) -> Result) -> Result {
    let complete = folder.join("complete");
    if complete.is_file() {
        return Ok(());
    }
    fill(folder)?;
    std::fs::write(&complete, "").map_err(said(complete.display()))
}

fn cargo(args: &[&str]) -> Result {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(program).args(args).current_dir(root()).status().map_err(said("cargo"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {}: {status}", args.join(" "))) }
}
