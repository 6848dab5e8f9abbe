//! A script: its file, what its module states, and its question.

use crate::c_struct;
use crate::host::{Counters, Host};
use crate::machine::Machine;
use crate::manifest::Manifest;
use crate::options::{ScriptError, ScriptOptions};
use crate::shared::{Shared, runtime};
use crate::tables::SharedFlows;
use crate::worker::ScriptTask;
use std::sync::Arc;
use weir::packet::Column;
use weir::packet_task::{PacketTask, TaskPacket, TaskRows, TaskValues};
use weir::{Compiler, Question};

/// Bytes of the longest key.
const KEY_BYTES_MAX: usize = 256;

/// A script that can be asked.
#[derive(Debug, Clone)]
pub struct Script(Arc<Shared>);

impl Script {
    /// Loads a script, and checks what its module states. The machine that does this processes no packets.
    ///
    /// # Errors
    /// Mistakes in the script, and in the texts that it states.
    pub fn load(compiler: &Compiler, options: ScriptOptions, host: Host) -> Result<Self, ScriptError> {
        let host = Arc::new(host);
        let machine = Machine::load(&options, &[], &host)?;
        let wrong = |message: String| ScriptError::new(&options.name, message);
        let manifest = Manifest::of(&machine).map_err(wrong)?;
        drop(machine);
        compiler.check_at_once(&manifest.filter, false).map_err(ScriptError::Mistakes)?;
        let values = TaskValues::of(compiler, manifest.key.as_deref(), &manifest.fields);
        let values = Arc::new(values.map_err(ScriptError::Mistakes)?);
        let runtime = runtime(&options, &manifest, &values, &host)?;
        let key_bytes = runtime.key_bytes();
        if let Some(bytes) = key_bytes.iter().find(|bytes| **bytes > KEY_BYTES_MAX || **bytes == 0) {
            return Err(wrong(format!("a key has {bytes} bytes: it may have 1 to {KEY_BYTES_MAX}")));
        }
        let of_state = runtime.state().len();
        if of_state > c_struct::BYTES_MAX {
            return Err(wrong(format!("a state has {of_state} bytes: it may have {}", c_struct::BYTES_MAX)));
        }
        let flows = manifest.is_shared.then(|| SharedFlows::new(&key_bytes, of_state, manifest.flows_max));
        Ok(Self(Arc::new(Shared::new(options, manifest, values, host, flows.map(Arc::new)))))
    }

    /// The filter of the module; empty: all packets.
    pub fn filter(&self) -> &str {
        &self.0.manifest().filter
    }

    /// The columns of the module's rows.
    pub fn columns(&self) -> &[Column] {
        &self.0.manifest().columns
    }

    /// The counts of all workers.
    pub fn counters(&self) -> &Counters {
        &self.0.host().counters
    }

    /// Whether the module has failed too often, and is not called any more.
    pub fn is_off(&self) -> bool {
        self.0.host().is_off()
    }

    /// The question for packets that match `filter` and the module's own filter.
    ///
    /// # Errors
    /// If the script uses more fields than a program has room for.
    pub fn question(&self, filter: &str) -> Result<Question, String> {
        let filter = match (self.filter().trim(), filter.trim()) {
            (own, "") => own.to_string(),
            ("", given) => given.to_string(),
            (own, given) => format!("({own}) and ({given})"),
        };
        let shared = Arc::clone(&self.0);
        let make = move || -> Box<dyn PacketTask> {
            let version = shared.version();
            match shared.runtime() {
                Ok(runtime) => Box::new(ScriptTask::new(Arc::clone(&shared), runtime, version)),
                Err(why) => {
                    shared.host().fail(&why.to_string(), false);
                    Box::new(Nothing)
                }
            }
        };
        self.0.values().question(&filter, self.columns().len(), make)
    }

    /// Takes a new text of the script, with the flows of the previous one.
    ///
    /// # Errors
    /// Mistakes in the text; what the module states is other than before. The previous text goes on.
    pub fn reload(&self, text: String) -> Result<(), ScriptError> {
        let shared = &self.0;
        let options = ScriptOptions { text, ..shared.options() };
        let wrong = |message: String| ScriptError::new(&options.name, message);
        let machine = Machine::load(&options, self.columns(), shared.host())?;
        let manifest = Manifest::of(&machine).map_err(wrong)?;
        drop(machine);
        manifest.continues(shared.manifest()).map_err(wrong)?;
        let before = runtime(&shared.options(), shared.manifest(), shared.values(), shared.host())?;
        let after = runtime(&options, shared.manifest(), shared.values(), shared.host())?;
        if (before.key_bytes(), before.state().len()) != (after.key_bytes(), after.state().len()) {
            return Err(wrong(
                "the types of keys or of the state have other sizes: start the run again".to_string(),
            ));
        }
        shared.change(options);
        Ok(())
    }
}

/// The task of a worker that could not load the script.
struct Nothing;

impl PacketTask for Nothing {
    fn packet(&mut self, _: &TaskPacket<'_>, _: &mut TaskRows<'_>) {}

    fn pass_time(&mut self, _: i64, _: &mut TaskRows<'_>) {}

    fn step_clock(&mut self, _: i64) {}
}
