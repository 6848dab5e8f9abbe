//! The development tasks of the project, one file (or folder) each: `cargo xtask CHORE`.
//!
//! Not part of the distribution. `ci.rs` lists the checks of the CI machine; start there.

mod api;
mod bench;
mod capture;
mod ci;
mod compare;
mod dependencies;
mod dist;
mod dpdk;
mod features;
mod functions;
mod fuzz;
mod gallery;
mod imports;
mod instructions;
mod lab;
mod layers;
mod modules;
mod python;
mod sanitize;
mod shell;
mod site;
mod skips;
mod test_run;
mod tidy;
mod traces;

use shell::Result;

struct Chore {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result,
}

const CHORES: &[Chore] = &[
    Chore { name: "ci", about: "all checks of CI, or those named [STEP…]", run: ci::run },
    Chore {
        name: "soak",
        about: "all tests, with all cases of the properties that take long",
        run: ci::soak,
    },
    Chore { name: "tidy", about: "the house style, with ratchets", run: tidy::run },
    Chore {
        name: "dependencies",
        about: "licences of crates, and crates of several versions",
        run: dependencies::run,
    },
    Chore { name: "gallery", about: "regenerate docs/gallery [--check]", run: gallery::run },
    Chore {
        name: "api",
        about: "list the public API of `weir` in docs/api.md anew [--check]",
        run: api::run,
    },
    Chore {
        name: "capture",
        about: "record examples/first-light.pcap anew, or one of more protocols [sessions| services| tunnels] (root)",
        run: capture::run,
    },
    Chore {
        name: "instructions",
        about: "what a packet costs, against bench/instructions.txt [--bless| --kinds] [--weir FILE]",
        run: instructions::run,
    },
    Chore {
        name: "layers",
        about: "regenerate protocols/*.pcap [NAME…| vxlan (root)| --check (tshark)]",
        run: layers::run,
    },
    Chore {
        name: "compare",
        about: "compare the output of two builds over all captures: OLD NEW [FILE|FOLDER…]",
        run: compare::run,
    },
    Chore {
        name: "dpdk",
        about: "build the plug-in for DPDK, beside the executable [--release]",
        run: dpdk::run,
    },
    Chore {
        name: "dist",
        about: "make what users install in target/dist [wheel| deb| archive| container| sbom| checksums…] [--test] [--profile NAME] [--target NAME]",
        run: dist::run,
    },
    Chore {
        name: "fetch",
        about: "fetch the broker of Kafka and the collector of OpenTelemetry that tests talk to",
        run: features::fetch,
    },
    Chore { name: "wheel", about: "build the Python package in target/wheels [--debug]", run: python::wheel },
    Chore {
        name: "python-tests",
        about: "test the Python package, its notebooks and types [--wheel] [PYTEST ARGUMENT…]",
        run: python::tests,
    },
    Chore { name: "site", about: "build the documentation as a site in target/site", run: site::run },
    Chore {
        name: "spark-tests",
        about: "test the data source of Spark, on Spark and Sail of PyPI [PYTEST ARGUMENT…]",
        run: python::spark_tests,
    },
    Chore {
        name: "fuzz",
        about: "fuzz all targets with libFuzzer [NAME…] [--seconds N| --minutes N] [--jobs N] [--replay FILE…| --distill]",
        run: fuzz::run,
    },
    Chore {
        name: "sanitize",
        about: "run the tests of code with `unsafe` under Miri and AddressSanitizer, and models of protocols [miri| address| loom]",
        run: sanitize::run,
    },
    Chore { name: "traces", about: "generate the benchmark's traces in bench/data (root)", run: traces::run },
    Chore {
        name: "bench",
        about: "measure, and write the tables of docs/benchmarks.md [TITLE…]",
        run: bench::run,
    },
];

fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = fuzz::wrap_compiler(&args) {
        return code;
    }
    let Some(chore) = args.first().and_then(|name| CHORES.iter().find(|c| c.name == name)) else {
        eprintln!("usage: cargo xtask CHORE\n");
        for chore in CHORES {
            eprintln!("  {:9} {}", chore.name, chore.about);
        }
        return 2.into();
    };
    match (chore.run)(&args[1..]) {
        Ok(()) => 0.into(),
        Err(trouble) => {
            eprintln!("xtask {}: {trouble}", chore.name);
            1.into()
        }
    }
}
