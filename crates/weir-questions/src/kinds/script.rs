//! `weir script`: a script in Lua over packets and flows.

use crate::compiled_in::HAS_LUA;
use crate::kind::{QuestionKind, Resolve};

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("script examples/scripts/statistics.lua capture.pcap", "records of flows, by a script of 50 lines"),
    ("script mine.lua --trust -i eth0 -j 4 'tcp' -- 443", "compiled, on four workers, with an argument"),
    (
        "script examples/scripts/ttl.lua --trust -r capture.pcap --dumps found/",
        "capture files of what it finds",
    ),
];

/// The type of question.
pub fn kind() -> QuestionKind {
    let about =
        "A script in Lua over packets and flows, compiled by LuaJIT: keys, state and checks of your own";
    let kind = QuestionKind::new("script", about, RESOLVE).with_examples(EXAMPLES);
    let missing = (!HAS_LUA).then_some("this weir is built without Lua: build it with the feature `lua`");
    QuestionKind { options: &["script", "arguments"], keeps: |_| true, missing, ..kind }
}

#[cfg(feature = "lua")]
const RESOLVE: Resolve = with_lua::resolve;

#[cfg(not(feature = "lua"))]
const RESOLVE: Resolve = |_, _| Err(crate::messages::failure::Failure::new("this weir is built without Lua"));

#[cfg(feature = "lua")]
mod with_lua {
    use crate::kind::{Context, Resolved};
    use crate::messages::failure::Failure;
    use crate::rows::make::{Rows, WriteRows, made_rows};
    use crate::source::input;
    use crate::spec::QuestionSpec;
    use std::io;
    use std::sync::PoisonError;
    use std::sync::atomic::{AtomicU64, Ordering};
    use weir::{Item, RunEnd};
    use weir_lua::{Counters, DumpRequest, FAILURES_MAX, Host, Notice, Script, ScriptError, ScriptOptions};

    pub fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
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

    /// Lines and messages of the script go to standard error, requests for dumps to the list of the command.
    fn host(spec: &QuestionSpec) -> Host {
        let notify = |notice: Notice| match notice {
            Notice::Line(line) => tell!("{line}"),
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
                note!("weir: {count} {what}");
            }
        }
    }
}
