//! nDPI over the packets of connections: `weir flows --ndpi`, and the fields `ndpi.…` of its filters.

use crate::messages::failure::Failure;
use crate::rows::make::{Rows, WriteRows};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use weir::packet::{Cell, Column, RowWriter, Texts, ValueType};
use weir::sessions::Field;
use weir::{FlowInspector, InspectedPacket, Item, Question, RowFields, RowFilter, RunEnd};
use weir_libraries::ndpi::{Detector, FLOW_BYTES, Flow, Name, Transport};

/// The columns that nDPI adds, and their names in filters.
const FIELDS: &[Field] = &[
    field(
        "ndpi.protocol",
        "ndpi_protocol",
        ValueType::Text,
        "protocols of the connection by nDPI, as ndpiReader prints them: TLS.Google",
    ),
    field("ndpi.category", "ndpi_category", ValueType::Text, "nDPI's category of the protocol: Web"),
    field("ndpi.risk", "ndpi_risk", ValueType::Texts, "nDPI's risks of the connection: Weak TLS Cipher"),
];

const fn field(name: &'static str, column: &'static str, value_type: ValueType, doc: &'static str) -> Field {
    Field { name, aliases: &[], column, value_type, doc, words: None }
}

/// The names of the columns that a table shows.
pub const BRIEF: [&str; 2] = ["ndpi_protocol", "ndpi_risk"];

/// The fewest connections that are inspected at the same time, whatever the memory is.
const OPEN_MIN: usize = 1024;

/// The columns.
pub fn columns() -> impl Iterator<Item = Column> {
    FIELDS.iter().map(|field| Column::new(field.column, field.value_type, field.doc))
}

/// Whether a name in a filter is, or is meant to be, that of a field of nDPI.
pub fn is_about(name: &str) -> bool {
    name.split_once('.').is_some_and(|(prefix, _)| prefix == "ndpi")
}

/// The columns as fields of filters on rows with these columns.
pub fn row_fields(columns: &[Column]) -> RowFields {
    RowFields::new("ndpi", "nDPI's results for the connection (weir flows)", FIELDS, columns)
}

/// Connections that are inspected, and those that are not, for lack of memory. All workers count.
#[derive(Debug)]
struct Load {
    open: AtomicUsize,
    open_max: usize,
    left_out: AtomicU64,
}

impl Load {
    /// Adds a connection, if there is room.
    fn begin(&self) -> bool {
        let is_open = self.open.fetch_add(1, Relaxed) < self.open_max;
        if !is_open {
            self.end();
            self.left_out.fetch_add(1, Relaxed);
        }
        is_open
    }

    /// A connection's result is final.
    fn end(&self) {
        self.open.fetch_sub(1, Relaxed);
    }
}

/// The question about connections whose rows nDPI extends, and their rows. `asked`: the condition on rows.
///
/// # Errors
/// nDPI can't be used.
pub fn question(
    filter: &str,
    asked: Option<RowFilter>,
    memory_max: usize,
) -> Result<(Question, Box<dyn Rows>), Failure> {
    // A detector that works: libraries that nDPI uses are initialised before a live run gives up its rights.
    Detector::load().map_err(Failure::new)?;
    let open_max = (memory_max / FLOW_BYTES).max(OPEN_MIN);
    let load = Arc::new(Load { open: AtomicUsize::new(0), open_max, left_out: AtomicU64::new(0) });
    let of_workers = Arc::clone(&load);
    let make = move || Inspector { detector: None, load: Arc::clone(&of_workers), name: Name::default() };
    let rows = Box::new(NdpiRows { asked: asked.map(Box::new), load });
    Ok((Question::of_inspected_flows(filter, make), rows))
}

/// The inspector of a worker.
struct Inspector {
    /// Created with the first connection: it takes 25 ms, and not every worker has connections.
    detector: Option<Detector>,
    load: Arc<Load>,
    name: Name,
}

impl Inspector {
    fn detector(&mut self) -> Option<&mut Detector> {
        if self.detector.is_none() {
            self.detector = Detector::load().ok();
        }
        self.detector.as_mut()
    }
}

impl FlowInspector for Inspector {
    /// `None`: the connection is left out.
    type State = Option<Flow>;

    const COLUMNS: usize = FIELDS.len();

    fn begin(&mut self, packet: &InspectedPacket<'_>) -> Option<Flow> {
        let transport = if packet.ip_proto()? == 17 { Transport::Udp } else { Transport::Other };
        if !self.load.begin() {
            return None;
        }
        let flow = self.detector().and_then(|detector| detector.begin(transport));
        if flow.is_none() {
            self.load.end();
            self.load.left_out.fetch_add(1, Relaxed);
        }
        flow
    }

    fn packet(&mut self, state: &mut Option<Flow>, packet: &InspectedPacket<'_>) {
        let (Some(flow), Some(detector)) = (state, &mut self.detector) else { return };
        if flow.is_final() {
            return;
        }
        match packet.ip_packet() {
            Some(bytes) => {
                detector.process(flow, bytes, (packet.meta().time.0 / 1_000_000).try_into().unwrap_or(0));
            }
            None => detector.skip(flow),
        }
        if flow.is_final() {
            self.load.end();
        }
    }

    fn end(&mut self, state: Option<Option<Flow>>, row: &mut RowWriter<'_>) {
        let (Some(mut flow), Some(detector)) = (state.flatten(), &mut self.detector) else {
            (0..Self::COLUMNS).for_each(|_| row.push(Cell::Absent));
            return;
        };
        if !flow.is_final() {
            self.load.end();
        }
        let found = detector.finish(&mut flow);
        row.push(Cell::Text(detector.name(&found, &mut self.name)));
        row.push(if found.category == 0 { Cell::Absent } else { Cell::Text(detector.category(&found)) });
        if found.risks.is_empty() {
            return row.push(Cell::Absent);
        }
        let risks: Vec<String> = detector.risks(found.risks).map(String::from).collect();
        row.push(Cell::Texts(Texts::Whole(&risks)));
    }

    fn forget(&mut self, state: Option<Flow>) {
        if state.is_some_and(|flow| !flow.is_final()) {
            self.load.end();
        }
    }
}

/// The rows that the filter on nDPI's columns selects.
struct NdpiRows {
    asked: Option<Box<RowFilter>>,
    load: Arc<Load>,
}

impl Rows for NdpiRows {
    fn item(&mut self, item: &Item<'_>, rows: WriteRows<'_>) -> io::Result<()> {
        let Item::Rows(made) = item else { return Ok(()) };
        let Some(asked) = &mut self.asked else { return rows(made.batch, made.range.clone()) };
        made.range.clone().try_for_each(|index| match asked.takes(made.batch.row(index)) {
            true => rows(made.batch, index..index + 1),
            false => Ok(()),
        })
    }

    fn end(&mut self, _: Option<&RunEnd<'_>>, _: WriteRows<'_>) -> io::Result<()> {
        let left_out = self.load.left_out.load(Relaxed);
        if left_out > 0 {
            let max = self.load.open_max;
            note!(
                "weir: {left_out} connections without nDPI's result: more than {max} were inspected at the same time (--memory)"
            );
        }
        Ok(())
    }
}
