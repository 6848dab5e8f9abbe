//! The features of CI, and what their tests talk to: a broker of Kafka, which Maven fetches, and the modules
//! of an OpenTelemetry collector, which pip fetches. `cargo xtask fetch` fetches both.

use crate::shell::{Result, find, output, root, said, target};
use crate::skips;
use std::path::Path;
use std::process::Command;

const FETCH: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// gRPC, and the messages of OTLP.
const MODULES: [&str; 2] = ["grpcio", "opentelemetry-proto"];

/// The one set of features, beside the default ones, with which CI checks, builds and tests. They compile
/// librdkafka, a client of gRPC, and PCRE2.
pub const FEATURES: &str = "weir-cli/kafka,weir-cli/otlp,weir-cli/pcre2,weir-testing/kernel";

/// Fetches the other ends of the tests, unless they are there. Tests without one are skipped.
///
/// # Errors
/// The target folder cannot be found.
pub fn fetch(_: &[String]) -> Result {
    for (name, fetch, packages) in [
        ("broker of Kafka", fetch_broker as fn(&Path) -> Result, "maven default-jdk-headless"),
        ("collector of OpenTelemetry", fetch_collector, "python3-pip"),
    ] {
        // A registry may fail once.
        let fetched = fetch(&target()?).or_else(|_| fetch(&target()?));
        if let Err(why) = fetched {
            skips::note(&format!("no {name}: {why}\n  apt-get install --no-install-recommends {packages}"));
        }
    }
    Ok(())
}

/// Copies the broker and what it needs to `kafka` in the target folder.
fn fetch_broker(target: &Path) -> Result {
    once(&target.join("kafka"), |folder| {
        find("mvn").ok_or("mvn is not installed")?;
        let pom = root().join("crates/weir-cli/tests/all/kafka/pom.xml");
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
