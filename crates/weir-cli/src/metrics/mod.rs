//! `--metrics`: the counters of a run for Prometheus, over HTTP, while the run goes on.
//!
//! - `families.rs`: which metrics there are
//! - `series.rs`: those of aggregates
//! - `exposition.rs`: their text, in two formats
//! - `server.rs`: the HTTP server

mod exposition;
mod families;
mod series;
mod server;

pub use series::Series;

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
        let mut families = families::of((&watch.glance(), &watch.workers()), &questions, begun);
        families.extend(totals.series().iter().flat_map(|series| series.families()));
        exposition::text(&families, format)
    })?;
    note!("weir: metrics are at http://{bound}/metrics");
    Ok(())
}
