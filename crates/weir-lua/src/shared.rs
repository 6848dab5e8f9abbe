//! What the workers of a script share: its text, what its module states, and flows.

use crate::host::Host;
use crate::machine::{Machine, message_of};
use crate::manifest::Manifest;
use crate::options::{ScriptError, ScriptOptions};
use crate::runtime::Runtime;
use crate::tables::SharedFlows;
use crate::trusted::Trusted;
use crate::untrusted::Untrusted;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use weir::packet_task::TaskValues;

/// What the workers of a script share.
#[derive(Debug)]
pub struct Shared {
    options: Mutex<ScriptOptions>,
    /// How often the script was changed.
    version: AtomicU64,
    manifest: Manifest,
    values: Arc<TaskValues>,
    host: Arc<Host>,
    flows: Option<Arc<SharedFlows>>,
}

impl Shared {
    /// A script with these options, whose module states `manifest`.
    pub fn new(
        options: ScriptOptions,
        manifest: Manifest,
        values: Arc<TaskValues>,
        host: Arc<Host>,
        flows: Option<Arc<SharedFlows>>,
    ) -> Self {
        let (options, version) = (Mutex::new(options), AtomicU64::new(0));
        Self { options, version, manifest, values, host, flows }
    }

    /// The text of now, and what it may do.
    pub fn options(&self) -> ScriptOptions {
        self.options.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes another text.
    pub fn change(&self, options: ScriptOptions) {
        *self.options.lock().unwrap_or_else(PoisonError::into_inner) = options;
        self.version.fetch_add(1, Ordering::Release);
    }

    /// How often the script was changed.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// A machine that has loaded the script.
    ///
    /// # Errors
    /// Mistakes in the script.
    pub fn runtime(&self) -> Result<Box<dyn Runtime>, ScriptError> {
        runtime(&self.options(), &self.manifest, &self.values, &self.host)
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    pub fn values(&self) -> &Arc<TaskValues> {
        &self.values
    }

    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// The flows, if workers share them.
    pub fn flows(&self) -> Option<&Arc<SharedFlows>> {
        self.flows.as_ref()
    }
}

/// The functions of a script.
///
/// # Errors
/// Mistakes in the script.
pub fn runtime(
    options: &ScriptOptions,
    manifest: &Manifest,
    values: &Arc<TaskValues>,
    host: &Arc<Host>,
) -> Result<Box<dyn Runtime>, ScriptError> {
    let machine = Machine::load(options, &manifest.columns, host)?;
    let wrong = |error: mlua::Error| ScriptError::new(&options.name, message_of(&error));
    Ok(match options.is_trusted {
        true => Box::new(Trusted::new(machine, values).map_err(wrong)?),
        false => Box::new(Untrusted::new(machine, manifest, values).map_err(wrong)?),
    })
}
