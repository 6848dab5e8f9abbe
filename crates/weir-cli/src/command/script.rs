//! `weir script`: a script in Lua over packets and flows.

use crate::ask::{self, Asked};
use crate::asking::Asking;
use crate::reload::{self, Reload};
use crate::subcommand::Subcommand;
use clap::Args as ClapArgs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::PoisonError;
use weir_questions::Input;
use weir_questions::QuestionKind;
use weir_questions::messages::Failure;
use weir_questions::source::input::is_live;
use weir_questions::{QuestionSpec, RunLink};

/// Arguments that only this command has.
#[derive(ClapArgs)]
struct Own {
    /// The script, a file of Lua that returns a module (docs/scripts.md)
    #[arg(value_name = "MODULE.lua", index = 1)]
    script: PathBuf,
    /// Give the script the rights of this process: FFI, files and programs. Its functions are compiled, and
    /// much faster; nothing ends its loops. Default: an interpreter without these rights, with limits of time
    /// and memory
    #[arg(long)]
    trust: bool,
    /// Write the packets of each flow for which `handlePacket` returns true to a capture file in this
    /// directory. The captures are read again at the end of the run
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    dumps: Option<PathBuf>,
    /// Arguments of the script, after `--`
    #[arg(last = true, value_name = "ARGUMENT", index = 3)]
    arguments: Vec<String>,
}

/// Dumps that are written in one pass over the captures.
const DUMPS_OF_PASS: usize = 64;

/// The subcommand.
pub fn command(kind: QuestionKind) -> Subcommand {
    Subcommand::asking_with(kind, &[], run)
        // The last argument of clap's list must be the one behind `--`.
        .with_arguments(|command| {
            command.mut_arg("words", |arg| arg.index(2)).mut_arg("arguments", |arg| arg.index(3))
        })
}

fn run(asking: Asking, own: Own) -> Result<ExitCode, Failure> {
    let mut asking = asking.settle()?;
    let link = RunLink::default();
    let spec = QuestionSpec {
        script: Some(own.script.clone()),
        arguments: own.arguments,
        trust: own.trust,
        link: Some(link.clone()),
        ..asking.spec
    };
    let input = &asking.input;
    if own.dumps.is_some() && (is_live(input) || input.read.iter().any(|read| read == "-")) {
        let message = "--dumps reads the captures again: name files with -r, or a recorder (-r ring:NAME)";
        return Err(Failure::new(message));
    }
    let reload = match reload::applies(input) {
        true => {
            reload::prepare()?;
            let file = own.script.display().to_string();
            Some(Reload { file, read_again: reload::again_of(&link, &spec) })
        }
        false => None,
    };
    asking.spec = spec;
    if let Some(directory) = &own.dumps {
        // The run gives up the right to make files elsewhere.
        weir_guard::files::create_directories(directory)
            .map_err(|error| Failure::writing(directory.display(), &error))?;
        asking.input.write_to.push(directory.clone());
    }
    let status = ask::answer_one(Asked { reload, ..asking.asked() })?;
    if let Some(directory) = own.dumps {
        let filters = std::mem::take(&mut *link.0.dumps.lock().unwrap_or_else(PoisonError::into_inner));
        write_dumps(&asking.input, &directory, &filters)?;
    }
    Ok(status)
}

/// Writes the packets of each filter to a file of its own.
fn write_dumps(input: &Input, directory: &Path, filters: &[String]) -> Result<(), Failure> {
    let mut input = input.clone();
    input.bpf = true;
    for (pass, filters) in filters.chunks(DUMPS_OF_PASS).enumerate() {
        let spec = |(index, filter): (usize, &String)| {
            let name = format!("flow-{:05}", pass * DUMPS_OF_PASS + index + 1);
            QuestionSpec {
                ask: "packets".to_string(),
                filter: filter.clone(),
                output: Some(directory.join(format!("{name}.pcapng"))),
                name,
                ..QuestionSpec::default()
            }
        };
        let specs: Vec<QuestionSpec> = filters.iter().enumerate().map(spec).collect();
        ask::answer(Asked::of(&input, &specs))?;
    }
    note!("weir: the packets of {} flows are in {}", filters.len(), directory.display());
    Ok(())
}
