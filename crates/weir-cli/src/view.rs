//! What is shown of a question's rows: which columns, in which order, how many rows, and sorted by what.

use crate::failure::Failure;
use crate::form::Form;
use crate::host_names::{HostNames, NAMED};
use crate::sorter::{SortKey, Sorter};
use crate::spec::QuestionSpec;
use std::borrow::Cow;
use std::io;
use std::net::IpAddr;
use weir::io::Format;
use weir::lang::diag::suggest;
use weir::lang::filter::help_on_foreign;
use weir::packet::{Column, Value, ValueType};

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
    /// The view that a question's options describe. `brief`: the columns that a table shows without options, as far as
    /// there are such columns; none: all.
    ///
    /// # Errors
    /// There is no such column; the options do not go together.
    pub fn of(
        spec: &QuestionSpec,
        form: Form,
        all: &[Column],
        brief: &[Cow<'static, str>],
        memory_max: usize,
    ) -> Result<Self, Failure> {
        let is_table = form.is(Format::Table);
        let mut names = HostNames::of(&spec.names, memory_max)?;
        let all = &*match &mut names {
            Some(names) => names.columns(all),
            None => all.to_vec(),
        };
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
                brief.iter().filter(|name| choose(all, name, true).is_ok()).cloned().collect()
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

    /// Whether no row can be shown before all rows are known.
    pub fn is_sorted(&self) -> bool {
        self.sorter.is_some()
    }

    /// Takes a row: passes what is shown of the row to `next`, or [keeps](Self::take_kept) the row until all are known.
    ///
    /// # Errors
    /// Those of `next`, and of the temporary file of a long sorted list.
    pub fn row(
        &mut self,
        values: &[Value<'_>],
        next: &mut dyn FnMut(&[Value<'_>]) -> io::Result<()>,
    ) -> io::Result<()> {
        let named: Vec<Value<'_>>;
        let values = match &self.names {
            Some(names) => {
                named = values.iter().map(Value::borrowed).chain(names.of_row(values)).collect();
                &named
            }
            None => values,
        };
        match &mut self.sorter {
            Some(sorter) => sorter.push(values),
            None => project(self.shown.as_deref(), values, next),
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
    pub fn learn(&mut self, columns: &[Column], row: &[Value<'_>]) {
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
    /// As [`View::row`].
    pub fn each(self, next: &mut dyn FnMut(&[Value<'_>]) -> io::Result<()>) -> io::Result<()> {
        let shown = self.shown.as_deref();
        self.sorter.finish(&mut |values| project(shown, values, next))
    }
}

/// Passes the shown values of a row to `next`.
fn project(
    shown: Option<&[Shown]>,
    values: &[Value<'_>],
    next: &mut dyn FnMut(&[Value<'_>]) -> io::Result<()>,
) -> io::Result<()> {
    let Some(shown) = shown else { return next(values) };
    let row: Vec<Value<'_>> = shown
        .iter()
        .map(|shown| match *shown {
            Shown::Column(at) => values.get(at).map_or(Value::Absent, Value::borrowed),
            Shown::End { host, port, name } => {
                let name = name.and_then(|name| values.get(name)).filter(|name| **name != Value::Absent);
                end_of(name.or(values.get(host)), values.get(port))
            }
        })
        .collect();
    next(&row)
}

/// An address with a port: `10.0.0.1:443`, `[fe80::1]:443`. Without a port, the address alone.
fn end_of<'a>(host: Option<&'a Value<'a>>, port: Option<&'a Value<'a>>) -> Value<'a> {
    let (host, port) = (host.unwrap_or(&Value::Absent), port.unwrap_or(&Value::Absent));
    match (host, port) {
        (Value::Address(IpAddr::V4(host)), Value::Unsigned(port)) if *port > 0 => {
            Value::Text(format!("{host}:{port}").into())
        }
        (Value::Address(IpAddr::V6(host)), Value::Unsigned(port)) if *port > 0 => {
            Value::Text(format!("[{host}]:{port}").into())
        }
        (Value::Text(name), Value::Unsigned(port)) if *port > 0 => {
            Value::Text(format!("{name}:{port}").into())
        }
        (host, _) => host.borrowed(),
    }
}

/// The column with this name, or the pair of columns. Columns of pairs have the type of addresses in tables, where
/// texts are cut and addresses are not.
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
