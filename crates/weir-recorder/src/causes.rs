//! What dumps begin with: each file declares one cause, and [`CAUSES`] lists them.

use crate::asking::PendingAsker;
use crate::options::RecorderOptions;
use crate::{indicators, rule_triggers, thresholds, triggers};
use weir_questions::messages::Failure;
use weir_questions::run::Run;

/// Adds the questions of a cause to the run of a recorder with these options. What they find is dumped.
pub type AskOf = fn(&RecorderOptions, &mut Run<'_>, &PendingAsker) -> Result<(), Failure>;

/// All causes.
pub const CAUSES: &[AskOf] = &[triggers::ask, indicators::ask, rule_triggers::ask, thresholds::ask];
