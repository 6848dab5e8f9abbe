//! What a module may call on each worker, and what all workers of a script share: messages, dumps, and
//! counters of mistakes.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir::packet::{Cell, Column, RowWriter, Timestamp, ValueType};

/// Failed calls of a module, on all workers, after which the module is not called any more.
pub const FAILURES_MAX: u64 = 100;
/// Rows of one batch of packets, or of one part of a check; further ones are counted.
const ROWS_MAX: usize = 65_536;
/// Bytes of a text in a row, or of a printed line; the rest is cut.
const TEXT_MAX: usize = 4096;
/// Printed lines of a run; further ones are counted.
const LINES_MAX: u64 = 100_000;

/// What the caller of a script is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The module prints a line.
    Line(String),
    /// The first failure of the module: `script.lua:7: …`.
    Failed(String),
    /// The module has failed [too often](FAILURES_MAX), and is not called any more.
    Disabled,
}

/// A request for a capture file with the packets of a flow, or the end of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpRequest {
    /// The packets: the text that the module's `buildPacketFilter` returned, in the syntax of pcap-filter(7).
    pub filter: String,
    /// The time of the packet with which the dump begins, or of the flow's last packet, in nanoseconds since
    /// 1970.
    pub time_ns: i64,
    /// The flow has ended.
    pub is_end: bool,
}

/// Counts of a script, on all workers.
#[derive(Debug, Default)]
pub struct Counters {
    /// Failed calls.
    pub failures: AtomicU64,
    /// Of these, calls that were stopped, because their time or memory was used up.
    pub stopped: AtomicU64,
    /// Packets without a flow, because the table is full.
    pub flows_refused: AtomicU64,
    /// Rows beyond those of one batch.
    pub rows_refused: AtomicU64,
    /// Lines beyond those of a run.
    pub lines_refused: AtomicU64,
    /// Dumps beyond `maxDumperRules`.
    pub dumps_refused: AtomicU64,
    lines: AtomicU64,
    dumps: AtomicU64,
}

/// What all workers of a script share.
pub struct Host {
    notify: Box<dyn Fn(Notice) + Send + Sync>,
    dump: Box<dyn Fn(DumpRequest) + Send + Sync>,
    /// Counts of all workers.
    pub counters: Counters,
    is_off: AtomicBool,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("counters", &self.counters).finish_non_exhaustive()
    }
}

impl Host {
    /// A host that passes messages and dumps on. Both functions are called on the threads of the workers.
    pub fn new(
        notify: impl Fn(Notice) + Send + Sync + 'static,
        dump: impl Fn(DumpRequest) + Send + Sync + 'static,
    ) -> Self {
        Self {
            notify: Box::new(notify),
            dump: Box::new(dump),
            counters: Counters::default(),
            is_off: AtomicBool::new(false),
        }
    }

    /// Whether the module is not called any more.
    pub fn is_off(&self) -> bool {
        self.is_off.load(Ordering::Relaxed)
    }

    /// Counts a failed call.
    pub(crate) fn fail(&self, message: &str, is_stopped: bool) {
        let add = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        if is_stopped {
            add(&self.counters.stopped);
        }
        match add(&self.counters.failures) + 1 {
            1 => (self.notify)(Notice::Failed(cut(message).to_string())),
            FAILURES_MAX => {
                self.is_off.store(true, Ordering::Relaxed);
                (self.notify)(Notice::Disabled);
            }
            _ => {}
        }
    }

    fn print(&self, line: &str) {
        match self.counters.lines.fetch_add(1, Ordering::Relaxed) < LINES_MAX {
            true => (self.notify)(Notice::Line(cut(line).to_string())),
            false => drop(self.counters.lines_refused.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Begins or ends a dump, of at most `dumps_max` in a run.
    pub(crate) fn dump(&self, request: DumpRequest, dumps_max: u64) {
        if !request.is_end && self.counters.dumps.fetch_add(1, Ordering::Relaxed) >= dumps_max {
            self.counters.dumps_refused.fetch_add(1, Ordering::Relaxed);
            return;
        }
        (self.dump)(request);
    }
}

/// The beginning of a text, of at most [`TEXT_MAX`] bytes.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_MAX)]
}

/// A cell of a row that waits for the end of the call.
#[derive(Debug, Clone)]
enum OwnedCell {
    Absent,
    Bool(bool),
    Unsigned(u64),
    Fraction(f64),
    Time(i64),
    Interval(u64),
    Address(IpAddr),
    Text(String),
}

/// The state of a machine's calls, which the functions of the module's `weir` use.
#[derive(Debug)]
pub struct Desk {
    host: Arc<Host>,
    columns: Vec<Column>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    now_ns: i64,
    rows: Vec<Vec<OwnedCell>>,
    deadline: Option<Instant>,
    is_stopped: bool,
}

impl Desk {
    pub fn new(host: Arc<Host>) -> Self {
        let inner = Inner { now_ns: i64::MIN, rows: vec![], deadline: None, is_stopped: false };
        Self { host, columns: vec![], inner: Mutex::new(inner) }
    }

    /// The desk with the columns of rows.
    pub fn with_columns(self, columns: Vec<Column>) -> Self {
        Self { columns, ..self }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the time that the module sees, in nanoseconds since 1970.
    pub fn set_now(&self, now_ns: i64) {
        self.lock().now_ns = now_ns;
    }

    /// That time, in seconds since 1970; 0 before the first packet.
    pub fn now(&self) -> f64 {
        self.lock().now_ns.max(0) as f64 / 1e9
    }

    /// A call of the module begins, and may last this long.
    pub fn begin_call(&self, limit: Duration) {
        let mut inner = self.lock();
        (inner.deadline, inner.is_stopped) = (Some(Instant::now() + limit), false);
    }

    /// Whether the call has lasted too long. From then on, [`is_stopped`](Self::is_stopped).
    pub fn is_overdue(&self) -> bool {
        let mut inner = self.lock();
        inner.is_stopped |= inner.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        inner.is_stopped
    }

    /// Whether the call was stopped.
    pub fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    /// Prints a line.
    pub fn print(&self, line: &str) {
        self.host.print(line);
    }

    /// Keeps a row; `value` has the value of the column with an index.
    ///
    /// # Errors
    /// A value that the column cannot have.
    pub fn add_row(&self, value: impl Fn(&str) -> mlua::Result<mlua::Value>) -> Result<(), String> {
        if self.columns.is_empty() {
            return Err("the module states no `columns`, so there are no rows".to_string());
        }
        let cell = |column: &Column| -> Result<OwnedCell, String> {
            let given = value(&column.name).map_err(|why| why.to_string())?;
            owned(column.value_type, &given).ok_or_else(|| {
                let (name, of) = (&column.name, given.type_name());
                format!("the column `{name}` cannot have this value of the type {of}")
            })
        };
        let row = self.columns.iter().map(cell).collect::<Result<_, String>>()?;
        let mut inner = self.lock();
        match inner.rows.len() < ROWS_MAX {
            true => inner.rows.push(row),
            false => drop(self.host.counters.rows_refused.fetch_add(1, Ordering::Relaxed)),
        }
        Ok(())
    }

    /// Writes the rows that were kept.
    pub fn write_rows(&self, rows: &mut weir::packet_task::TaskRows<'_>) {
        for row in self.lock().rows.drain(..) {
            let mut writer: RowWriter<'_> = rows.add();
            for cell in &row {
                writer.push(match cell {
                    OwnedCell::Absent => Cell::Absent,
                    OwnedCell::Bool(value) => Cell::Bool(*value),
                    OwnedCell::Unsigned(value) => Cell::Unsigned(*value),
                    OwnedCell::Fraction(value) => Cell::Fraction(*value),
                    OwnedCell::Time(value) => Cell::Time(Timestamp(*value)),
                    OwnedCell::Interval(value) => Cell::Interval(*value),
                    OwnedCell::Address(value) => Cell::Address(*value),
                    OwnedCell::Text(value) => Cell::Text(value),
                });
            }
        }
    }
}

/// The value of a column of this type; `None`: it has no such values.
fn owned(value_type: ValueType, value: &mlua::Value) -> Option<OwnedCell> {
    use mlua::Value;
    let number = match value {
        Value::Nil => return Some(OwnedCell::Absent),
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    };
    let text = match value {
        Value::String(text) => Some(text.to_string_lossy()),
        _ => None,
    };
    Some(match value_type {
        ValueType::Bool => match value {
            Value::Boolean(value) => OwnedCell::Bool(*value),
            _ => OwnedCell::Bool(number? != 0.0),
        },
        // Numbers of 64 bits come as their digits.
        ValueType::Unsigned => OwnedCell::Unsigned(match number {
            Some(number) => Some(number).filter(|number| *number >= 0.0)? as u64,
            None => text?.parse().ok()?,
        }),
        ValueType::Fraction => OwnedCell::Fraction(number?),
        // A double has a quarter of a microsecond in such times.
        ValueType::Time => OwnedCell::Time(((number? * 1e6).round() as i64).saturating_mul(1000)),
        ValueType::Interval => OwnedCell::Interval((number? * 1e9) as u64),
        ValueType::Address => OwnedCell::Address(text?.parse().ok()?),
        _ => OwnedCell::Text(match number {
            Some(number) => number.to_string(),
            None => cut(&text?).to_string(),
        }),
    })
}
