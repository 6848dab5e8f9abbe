//! `--metrics`: the counters of a run for Prometheus, over HTTP, while the run goes on.
//!
//! - `families.rs`: which metrics there are
//! - `exposition.rs`: their text, in two formats
//! - `server.rs`: the HTTP server

mod exposition;
mod families;
mod server;

use crate::failure::Failure;
use crate::totals::RunTotals;
use std::time::SystemTime;
use weir::Watch;

/// Serves the metrics of the run that `watch` shows at `address`, until the process ends. A message says where.
///
/// # Errors
/// `address` is no address, or cannot be used.
pub fn serve(address: &str, watch: Watch, totals: RunTotals) -> Result<(), Failure> {
    let begun = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let bound = server::listen(address, move |format| {
        let questions = totals.questions();
        exposition::text(&families::of((&watch.glance(), &watch.workers()), &questions, begun), format)
    })?;
    note!("weir: metrics are at http://{bound}/metrics");
    Ok(())
}
