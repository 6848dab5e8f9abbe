//! `weir script`: a script in Lua over packets and flows.

use crate::args::{Ask, Input};
use crate::ask::{self, Asked};
use crate::compiled_in::HAS_LUA;
use crate::failure::Failure;
use crate::output;
use crate::reload::{self, Reload};
use crate::spec::{QuestionSpec, RunLink};
use crate::subcommand::{Group, Subcommand};
use clap::Args as ClapArgs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::PoisonError;

/// Arguments of `script`.
#[derive(ClapArgs)]
struct Args {
    /// The script, a file of Lua that returns a module (docs/scripts.md)
    #[arg(value_name = "MODULE.lua")]
    script: PathBuf,
    #[command(flatten)]
    ask: Ask,
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
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// Dumps that are written in one pass over the captures.
const DUMPS_OF_PASS: usize = 64;

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("script examples/scripts/statistics.lua capture.pcap", "records of flows, by a script of 50 lines"),
    ("script mine.lua --trust -i eth0 -j 4 'tcp' -- 443", "compiled, on four workers, with an argument"),
    (
        "script examples/scripts/ttl.lua --trust -r capture.pcap --dumps found/",
        "capture files of what it finds",
    ),
];

/// The subcommand.
pub fn command() -> Subcommand {
    let about =
        "A script in Lua over packets and flows, compiled by LuaJIT: keys, state and checks of your own";
    let command = Subcommand::new("script", about, run)
        .in_group(Group::Everyday)
        .with_examples(EXAMPLES)
        .shown_if(HAS_LUA);
    #[cfg(feature = "lua")]
    let command = command.with_question(with_lua::kind());
    command
}

fn run(args: Args, all: &[Subcommand]) -> Result<ExitCode, Failure> {
    if !HAS_LUA {
        return Err(Failure::new(
            "this weir is built without Lua: build it with `cargo install --path crates/weir-cli --features lua`",
        ));
    }
    let Args { script, ask: mut args, trust, dumps, arguments } = args;
    let link = RunLink::default();
    let spec = QuestionSpec {
        script: Some(script.clone()),
        arguments,
        trust,
        link: Some(link.clone()),
        ..args.spec("script")?
    };
    if dumps.is_some() && (output::is_live(&args.input) || args.input.read.iter().any(|read| read == "-")) {
        let message = "--dumps reads the captures again: name files with -r, or a recorder (-r ring:NAME)";
        return Err(Failure::new(message));
    }
    let reload = match reload::applies(&args.input) {
        true => {
            reload::prepare()?;
            Some(Reload { file: script.display().to_string(), read_again: reload::again_of(&link, &spec) })
        }
        false => None,
    };
    let asked = Asked { reload, ..Asked::one(&args.input, &spec, args.output.stats) };
    let answered = ask::answer(asked, all)?;
    let status = if spec.count { answered.status_of_search() } else { answered.ran.status };
    if let Some(directory) = dumps {
        let filters = std::mem::take(&mut *link.0.dumps.lock().unwrap_or_else(PoisonError::into_inner));
        write_dumps(&args.input, &directory, &filters, all)?;
    }
    Ok(status)
}

/// Writes the packets of each filter to a file of its own.
fn write_dumps(
    input: &Input,
    directory: &Path,
    filters: &[String],
    all: &[Subcommand],
) -> Result<(), Failure> {
    weir_guard::files::create_directories(directory)
        .map_err(|error| Failure::writing(directory.display(), &error))?;
    let mut input = input.clone();
    input.program.bpf = true;
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
        ask::answer(Asked::of(&input, &specs), all)?;
    }
    note!("weir: the packets of {} flows are in {}", filters.len(), directory.display());
    Ok(())
}

/// The type of question. A weir without Lua does not know the type.
#[cfg(feature = "lua")]
mod with_lua {
    use super::*;
    use crate::input;
    use crate::rows::{Rows, WriteRows, made_rows};
    use crate::subcommand::{Context, QuestionKind, Resolved};
    use crate::terminal;
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering};
    use weir::{Item, RunEnd};
    use weir_lua::{Counters, DumpRequest, FAILURES_MAX, Host, Notice, Script, ScriptError, ScriptOptions};

    pub fn kind() -> QuestionKind {
        QuestionKind { options: &["script", "arguments"], keeps: |_| true, ..QuestionKind::new(resolve) }
    }

    fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
        let path = spec.script.as_deref().ok_or_else(|| {
            Failure::new("`script` is missing: the file of the script, as in script = \"flows.lua\"")
        })?;
        let options = ScriptOptions {
            name: path.display().to_string(),
            text: input::read_text(path)?,
            arguments: spec.arguments.clone(),
            is_trusted: spec.trust,
        };
        let script = Script::load(context.compiler, options, host(spec)).map_err(failure)?;
        if context.bpf && !script.filter().is_empty() {
            return Err(Failure::new(format!(
                "{}: the script has a filter in Weir's syntax: give no --bpf",
                path.display()
            )));
        }
        if let Some(link) = &spec.link {
            let script = script.clone();
            // The first question of the command is the one that runs.
            let path = path.to_path_buf();
            let again = move || script.reload(input::read_text(&path)?).map_err(failure);
            let _ = link.0.reload.set(Box::new(again));
        }
        let question = script.question(&spec.filter).map_err(Failure::new)?;
        let columns = script.columns().to_vec();
        Ok(Resolved::new(vec![question], "script", columns, ScriptRows { script }))
    }

    fn failure(why: ScriptError) -> Failure {
        match why {
            ScriptError::Message(message) => Failure::new(message),
            ScriptError::Mistakes(list) => Failure::Mistakes(list),
        }
    }

    /// What the script is told and may ask for: lines and messages go to standard error, dumps into the list
    /// of the command.
    fn host(spec: &QuestionSpec) -> Host {
        let notify = |notice: Notice| match notice {
            Notice::Line(line) => say!("{line}"),
            Notice::Failed(message) => say!("weir: {message}"),
            Notice::Disabled => {
                say!("weir: the script has failed {FAILURES_MAX} times, and is not called any more");
            }
        };
        let link = spec.link.clone();
        let dump = move |request: DumpRequest| {
            if let Some(link) = link.as_ref().filter(|_| !request.is_end) {
                link.0.dumps.lock().unwrap_or_else(PoisonError::into_inner).push(request.filter);
            }
        };
        Host::new(notify, dump)
    }

    /// The rows of a script.
    struct ScriptRows {
        script: Script,
    }

    impl Rows for ScriptRows {
        fn item(&mut self, item: &Item<'_>, rows: WriteRows<'_>) -> io::Result<()> {
            made_rows(item, rows)
        }

        fn end(&mut self, _: Option<&RunEnd<'_>>, _: WriteRows<'_>) -> io::Result<()> {
            report(self.script.counters());
            Ok(())
        }

        fn is_enough(&self) -> bool {
            self.script.is_off()
        }

        fn fault(&mut self) -> Option<Failure> {
            self.script
                .is_off()
                .then(|| Failure::new("the script has failed too often: its results are incomplete"))
        }
    }

    /// Prints the counters that are not 0.
    fn report(counters: &Counters) {
        if terminal::is_quiet() {
            return;
        }
        let Counters { failures, stopped, flows_refused, rows_refused, lines_refused, dumps_refused, .. } =
            counters;
        for (counter, what) in [
            (failures, "calls of the script failed (script_failed)"),
            (stopped, "of them were stopped, because they took too long or too much memory (script_stopped)"),
            (
                flows_refused,
                "packets have no flow, because the script's tables are full (script_flows_refused)",
            ),
            (
                rows_refused,
                "rows of the script are lost, because there were too many at once (script_rows_refused)",
            ),
            (
                lines_refused,
                "lines of the script are not printed, because there were too many (script_lines_refused)",
            ),
            (dumps_refused, "dumps were not begun, because there were too many (script_dumps_refused)"),
        ] as [(&AtomicU64, &str); 6]
        {
            let count = counter.load(Ordering::Relaxed);
            if count > 0 {
                say!("weir: {count} {what}");
            }
        }
    }
}
