//! Rules as triggers of a recorder: the connection of an alert is dumped, from its first packet on; with
//! `tag:host`, what its host sends and receives from the alert on.

use crate::asking::PendingAsker;
use crate::dump_queue::DumpParams;
use crate::options::{Around, RecorderOptions};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use weir::packet::{Batch, Cell, Timestamp};
use weir::{Item, Next, RunEnd, TakeItems};
use weir_detect::{COLUMNS, Detection};
use weir_questions::Ends;
use weir_questions::loaded_rules::{self, report};
use weir_questions::messages::Failure;
use weir_questions::run::Run;
use weir_rules::{TagUnit, Track};

/// Adds the rules that the options state.
///
/// # Errors
/// The rules cannot be read.
pub fn ask(options: &RecorderOptions, run: &mut Run<'_>, asking: &PendingAsker) -> Result<(), Failure> {
    if options.rules.is_empty() {
        return Ok(());
    }
    let set = Arc::clone(run.set());
    let detection = loaded_rules::for_recorder(&options.rules, &set.compiler)?;
    set.file_contents().iter().for_each(|store| detection.ask_for_files(store));
    let questions = detection.questions(&set.compiler, "").map_err(Failure::new)?;
    let (around, dumps) = (options.around()?, asking.clone());
    run.subscribe(questions, RuleTriggers { detection, around, dumps, left_out: 0 }).map(drop)
}

/// Receives alerts, and asks for dumps.
struct RuleTriggers {
    /// The rules, whose counters are reported.
    detection: Detection,
    /// The time after an alert for which packets of its connection are dumped.
    around: Around,
    /// Who dumps.
    dumps: PendingAsker,
    /// Alerts without a dump: of packets without a connection.
    left_out: u64,
}

impl TakeItems for RuleTriggers {
    fn take(&mut self, _: usize, item: Item<'_>) -> Next {
        let Self { detection, around, dumps, left_out } = self;
        let (Item::Rows(rows), Some(dumps)) = (item, dumps.get()) else { return Next::Go };
        for row in rows.range.clone() {
            let Some(alert) = Alert::of(rows.batch, row, detection) else {
                *left_out += 1;
                continue;
            };
            let after = alert.after.unwrap_or(around.after);
            dumps.begin(&alert.name, Some(after), || DumpParams {
                from: alert.start,
                reason: format!("weir: the rule {} matches: {}", alert.sid, alert.message),
                name: alert.name.clone(),
                filter: alert.filter.clone(),
            });
        }
        Next::Go
    }

    fn finish(&mut self, _: Option<RunEnd<'_>>) {
        report(self.detection.counters());
        if self.left_out > 0 {
            say!("weir: {} alerts of packets without a connection have no dump", self.left_out);
        }
    }
}

/// An alert, and the packets of its connection.
struct Alert {
    name: String,
    filter: String,
    start: Timestamp,
    sid: u64,
    message: String,
    /// How long packets are dumped after the alert, if the rule says so.
    after: Option<Duration>,
}

impl Alert {
    /// The alert of a row. `None`: its packet has no connection.
    fn of(batch: &Batch, row: usize, detection: &Detection) -> Option<Self> {
        let cell = |name: &str| {
            let at = COLUMNS.iter().position(|column| column.name == name);
            at.map_or(Cell::Absent, |at| batch.cell(row, at))
        };
        let address = |name: &str| if let Cell::Address(address) = cell(name) { Some(address) } else { None };
        let number = |name: &str| if let Cell::Unsigned(number) = cell(name) { Some(number) } else { None };
        let (gid, sid) = (number("gid")?, number("sid")?);
        let message = if let Cell::Text(text) = cell("msg") { text.to_string() } else { String::new() };
        let tag = detection.tag_of(gid as u32, sid as u32);
        let seconds = tag.filter(|tag| tag.unit == TagUnit::Seconds).map(|tag| tag.count);
        let after = seconds.map(|seconds| Duration::from_secs(seconds.into()));
        if let (Some(host), Cell::Time(start)) = (tag.and_then(|tag| tag.host), cell("ts")) {
            let host = address(if host == Track::Destination { "dst" } else { "src" })?;
            let filter = format!("{} == {host}", field_of(host));
            return Some(Self { name: format!("host {host}"), filter, start, sid, message, after });
        }
        let (Cell::Time(start), Cell::Text(proto)) = (cell("start"), cell("proto")) else { return None };
        let (orig, resp) = (address("id.orig_h")?, address("id.resp_h")?);
        let (orig_p, resp_p) = (number("id.orig_p")?, number("id.resp_p")?);
        let name = format!("{proto} {orig} {orig_p} {resp} {resp_p}");
        let port = |number: u64| u32::try_from(number).ok();
        let ends =
            Ends { proto: proto.to_string(), orig: (orig, port(orig_p)?), resp: (resp, port(resp_p)?) };
        Some(Self { name, filter: ends.filter(), start, sid, message, after })
    }
}

/// The field of addresses like this one.
fn field_of(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "ip.addr" } else { "ipv6.addr" }
}
