//! What is shown of a question's rows: which columns, in which order, how many rows, and sorted by what.

use crate::form::Form;
use crate::messages::failure::Failure;
use crate::rows::host_names::{HostNames, NAMED};
use crate::rows::resolved::Resolved;
use crate::rows::sorter::{SortKey, Sorter};
use crate::spec::QuestionSpec;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use weir::ColumnMask;
use weir::io::Format;
use weir::lang::diag::suggest;
use weir::lang::filter::help_on_foreign;
use weir::packet::{Batch, Cell, Column, Row, RowWriter, ValueType};

/// Columns that join an address and a port: their names, the title in tables, the address, the port.
const ENDS: &[(&[&str], &str, &str, &str)] = &[
    (&["orig", "client"], "client", "id.orig_h", "id.orig_p"),
    (&["resp", "server"], "server", "id.resp_h", "id.resp_p"),
    (&["src", "from"], "from", "src_h", "src_p"),
    (&["dst", "to"], "to", "dst_h", "dst_p"),
];

/// The source of a shown value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// The value of a column.
    Column(usize),
    /// The address and the port of one end of a connection.
    End { host: usize, port: usize, name: Option<usize> },
}

/// The view of a question's rows.
pub struct View {
    /// The shown columns.
    pub columns: Vec<Column>,
    /// `None`: all columns, in their order.
    shown: Option<Vec<Shown>>,
    /// Maximum number of answers.
    pub limit: u64,
    sorter: Option<Sorter>,
    names: Option<HostNames>,
}

impl View {
    /// The view that a question's options describe, of the rows of `resolved`.
    ///
    /// # Errors
    /// There is no such column; the options do not go together.
    pub fn of(
        spec: &QuestionSpec,
        form: Form,
        resolved: &Resolved,
        memory_max: usize,
    ) -> Result<Self, Failure> {
        let is_table = form.is(Format::Table);
        let mut names = HostNames::of(&spec.names, memory_max)?;
        let all = &*match &mut names {
            Some(names) => names.columns(&resolved.columns),
            None => resolved.columns.clone(),
        };
        let is_usual = |column: &&Column| !resolved.on_request.contains(&&*column.name);
        let has_rows = matches!(form, Form::Rows(_));
        let refused = [
            ("--columns", !spec.columns.is_empty() && !has_rows),
            ("--sort", spec.sort.is_some() && !has_rows),
            ("--names", !spec.names.is_empty() && !has_rows),
            ("--limit", spec.limit.is_some() && form == Form::Count),
        ];
        if let Some((option, _)) = refused.iter().find(|(_, is_refused)| *is_refused) {
            let with = if form == Form::Count { "--count" } else { "this form of output" };
            return Err(Failure::new(format!("{option} cannot be used with {with}")));
        }
        let wanted: Vec<Cow<'_, str>> = match spec.columns.is_empty() {
            false => spec.columns.iter().map(|name| Cow::Borrowed(name.as_str())).collect(),
            true if is_table && !spec.wide => {
                let brief = resolved.brief.iter().filter(|name| choose(all, name, true).is_ok());
                brief.cloned().collect()
            }
            true => vec![],
        };
        let mut chosen: Vec<(Shown, Column)> =
            wanted.iter().map(|name| choose(all, name, is_table)).collect::<Result<_, _>>()?;
        if let Some((at, _)) = chosen
            .iter()
            .enumerate()
            .find(|(at, (shown, _))| chosen[..*at].iter().any(|(other, _)| other == shown))
        {
            return Err(Failure::new(format!("column `{}` is named twice", wanted[at])));
        }
        let mut sorter = |text: &str| -> Result<Sorter, Failure> {
            let (name, is_descending) = match text.strip_prefix('-') {
                Some(name) => (name, true),
                None => (text, false),
            };
            let (shown, column) = choose(all, name, is_table)?;
            // The first column is shown on the narrowest terminal.
            if spec.columns.is_empty() && !chosen.is_empty() {
                chosen.retain(|(other, _)| *other != shown);
                chosen.insert(0, (shown, column));
            }
            let columns = match shown {
                Shown::Column(at) => vec![at],
                Shown::End { host, port, .. } => vec![host, port],
            };
            Ok(Sorter::new(SortKey { columns, is_descending }, spec.limit, memory_max))
        };
        let sorter = spec.sort.as_deref().map(&mut sorter).transpose()?;
        if chosen.is_empty() && !resolved.on_request.is_empty() {
            let usual = all.iter().filter(is_usual).map(|column| choose(all, &column.name, is_table));
            chosen = usual.collect::<Result<_, _>>()?;
        }
        let (shown, columns) = match chosen.is_empty() {
            true => (None, all.to_vec()),
            false => {
                let (shown, columns) = chosen.into_iter().unzip();
                (Some(shown), columns)
            }
        };
        let limit = spec.limit.unwrap_or(u64::MAX);
        Ok(Self { columns, shown, limit, sorter, names })
    }

    /// The columns that are needed of rows with these columns.
    pub fn needed(&self, all: usize) -> ColumnMask {
        let Some(shown) = &self.shown else { return ColumnMask::ALL };
        let of_shown = shown.iter().flat_map(|shown| match *shown {
            Shown::Column(at) => [at, at],
            Shown::End { host, port, .. } => [host, port],
        });
        let sorted = self.sorter.iter().flat_map(|sorter| sorter.columns().iter().copied());
        let named = self.names.iter().flat_map(|names| names.places().iter().copied());
        of_shown.chain(sorted).chain(named).filter(|&at| at < all).collect()
    }

    /// Whether no row can be shown before all rows are known.
    pub fn is_sorted(&self) -> bool {
        self.sorter.is_some()
    }

    /// Takes rows: passes what is shown of the rows to `next`, or [keeps](Self::take_kept) the rows until all
    /// are known.
    ///
    /// # Errors
    /// Those of `next`, and of the temporary file of a long sorted list.
    pub fn rows(&mut self, batch: &Batch, rows: Range<usize>, next: ShowRows<'_>) -> io::Result<()> {
        let mut named;
        let (batch, rows) = match &self.names {
            Some(names) => {
                named = Batch::new(batch.columns() + names.places().len());
                for index in rows {
                    let row = batch.row(index);
                    let names: Vec<Cell<'_>> = names.of_row(row).collect();
                    named.add_around(&[], row, &names);
                }
                let all = 0..named.rows();
                (&named, all)
            }
            None => (batch, rows),
        };
        match &mut self.sorter {
            Some(sorter) => sorter.push(batch, rows),
            None => project(self.shown.as_deref(), batch, rows, next),
        }
    }

    /// Whether DNS answers add names.
    pub fn learns_names(&self) -> bool {
        self.names.as_ref().is_some_and(|names| names.learns)
    }

    /// Reports what the view could not keep.
    pub fn report(&self) {
        self.names.iter().for_each(HostNames::report);
    }

    /// Learns the names in a row of `dns.log`; `columns` are its columns.
    pub fn learn(&mut self, columns: &[Column], row: Row<'_>) {
        self.names.iter_mut().for_each(|names| names.learn(columns, row));
    }

    /// Removes and returns the rows that were kept.
    pub fn take_kept(&mut self) -> Option<Kept> {
        let sorter = self.sorter.take()?;
        Some(Kept { sorter, shown: self.shown.take() })
    }
}

/// Rows that are sorted, after all of them are known.
pub struct Kept {
    sorter: Sorter,
    shown: Option<Vec<Shown>>,
}

impl Kept {
    /// Passes what is shown of the rows to `next`, sorted.
    ///
    /// # Errors
    /// As [`View::rows`].
    pub fn each(self, next: ShowRows<'_>) -> io::Result<()> {
        let shown = self.shown.as_deref();
        let mut sorted = Batch::default();
        self.sorter.finish(&mut |row| {
            if sorted.columns() == 0 {
                sorted = Batch::new(row.len());
            }
            sorted.add_around(&[], row, &[]);
            if sorted.rows() < SORTED_ROWS {
                return Ok(());
            }
            project(shown, &sorted, 0..sorted.rows(), next)?;
            sorted.clear();
            Ok(())
        })?;
        project(shown, &sorted, 0..sorted.rows(), next)
    }
}

/// Number of sorted rows that are passed on together.
const SORTED_ROWS: usize = 64;

/// Takes rows of a batch: its columns with these indexes, in this order; `None`: all of them.
pub type ShowRows<'a> = &'a mut dyn FnMut(&Batch, Range<usize>, Option<&[usize]>) -> io::Result<()>;

/// Passes what is shown of rows to `next`.
fn project(shown: Option<&[Shown]>, batch: &Batch, rows: Range<usize>, next: ShowRows<'_>) -> io::Result<()> {
    let Some(shown) = shown else { return next(batch, rows, None) };
    let column = |shown: &Shown| match *shown {
        Shown::Column(at) => Some(at),
        Shown::End { .. } => None,
    };
    let columns: Option<Vec<usize>> = shown.iter().map(column).collect();
    if let Some(columns) = columns {
        return next(batch, rows, Some(&columns));
    }
    let mut made = Batch::new(shown.len());
    for index in rows {
        let (mut writer, row) = (made.add(), batch.row(index));
        for shown in shown {
            match *shown {
                Shown::Column(at) => writer.push(row.cell(at)),
                Shown::End { host, port, name } => {
                    let name = name.map_or(Cell::Absent, |name| row.cell(name));
                    let host = if name.is_present() { name } else { row.cell(host) };
                    write_end(host, row.cell(port), &mut writer);
                }
            }
        }
    }
    next(&made, 0..made.rows(), None)
}

/// Writes an address with a port: `10.0.0.1:443`, `[fe80::1]:443`. Without a port, the address alone.
fn write_end(host: Cell<'_>, port: Cell<'_>, row: &mut RowWriter<'_>) {
    let (Cell::Unsigned(port @ 1..), Cell::Address(_) | Cell::Text(_)) = (port, host) else {
        return row.push(host);
    };
    // Writing into a string cannot fail.
    row.text_with(|text| {
        let _ = match host {
            Cell::Address(IpAddr::V4(host)) => write!(text, "{host}:{port}"),
            Cell::Address(IpAddr::V6(host)) => write!(text, "[{host}]:{port}"),
            Cell::Text(name) => write!(text, "{name}:{port}"),
            _ => Ok(()),
        };
    });
}

/// The column with this name, or the pair of columns. Columns of pairs have the type of addresses in tables,
/// where texts are cut and addresses are not.
fn choose(all: &[Column], name: &str, is_table: bool) -> Result<(Shown, Column), Failure> {
    let at = |name: &str| all.iter().position(|column| column.name == name);
    if let Some(index) = at(name) {
        return Ok((Shown::Column(index), all[index].clone()));
    }
    let ends = ENDS.iter().find(|(names, ..)| names.contains(&name));
    if let Some(&(_, title, host_name, port)) = ends
        && let (Some(host), Some(port)) = (at(host_name), at(port))
    {
        let of_host = NAMED.iter().find(|(of, _)| *of == host_name);
        let host_name = of_host.and_then(|(_, name)| at(name));
        // An address is never cut, a name may be.
        let is_whole = is_table && host_name.is_none();
        let value_type = if is_whole { ValueType::Address } else { ValueType::Text };
        let name = if is_table { title.to_string() } else { name.to_string() };
        let doc = "address and port".into();
        return Ok((
            Shown::End { host, port, name: host_name },
            Column { name: name.into(), value_type, doc },
        ));
    }
    let joined = ENDS.iter().filter(|(_, _, host, port)| at(host).and(at(port)).is_some());
    let joined = joined.flat_map(|(names, ..)| names.iter().copied());
    let known: Vec<&str> = all.iter().map(|column| &*column.name).chain(joined).collect();
    let near = suggest(name, known.iter().copied());
    let longer: Vec<&str> =
        known.iter().copied().filter(|column| !name.is_empty() && column.contains(name)).collect();
    let hint = match near {
        _ if let Some(help) = help_on_foreign(name) => help.to_string(),
        Some(near) => format!("is `{near}` meant?"),
        None if !longer.is_empty() => format!("is `{}` meant?", longer.join("` or `")),
        None => format!("there are {}", known.join(", ")),
    };
    Err(Failure::new(format!("no column `{name}`: {hint}")))
}
