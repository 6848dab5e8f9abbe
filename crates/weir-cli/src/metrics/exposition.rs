//! Metrics as text, in the format of OpenMetrics 1.0 (<https://prometheus.io/docs/specs/om/open_metrics_spec>), and in the older
//! one of Prometheus, version 0.0.4. They differ in the names of counters in the lines about a family, in units, and at the end.

use std::borrow::Cow;
use std::fmt::Write;

/// A format of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposition {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus, version 0.0.4.
    Plain,
}

impl Exposition {
    /// The format that a client with this `Accept` header reads.
    pub fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Plain }
    }

    /// The media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows. Names of its samples end in `_total`.
    Counter,
    /// A number that rises and falls.
    Gauge,
    /// Facts, as labels of a sample whose name ends in `_info`.
    Info,
    /// Numbers of values up to bounds: samples that end in `_bucket` and `_count`.
    Histogram,
}

/// A sample of a family.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The ending of its name, before that of its family.
    pub ending: &'static str,
    /// Labels and their values.
    pub labels: Vec<(Cow<'static, str>, String)>,
    /// The number.
    pub value: f64,
}

impl Sample {
    /// A sample without labels.
    pub fn of(value: f64) -> Self {
        Self { ending: "", labels: vec![], value }
    }

    /// A sample with one label.
    pub fn with(label: &'static str, of: String, value: f64) -> Self {
        Self { labels: vec![(label.into(), of)], ..Self::of(value) }
    }
}

/// Metrics of one name, which differ in labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// The name, without the ending that the type requires.
    pub name: Cow<'static, str>,
    /// The type.
    pub kind: Kind,
    /// The meaning.
    pub help: Cow<'static, str>,
    /// The samples.
    pub samples: Vec<Sample>,
}

/// Units that names of metrics end with.
const UNITS: &[&str] = &["bytes", "seconds"];

/// The text of these families.
pub fn text(families: &[Family], format: Exposition) -> String {
    let mut text = String::new();
    for family in families {
        // Writing to a text does not fail.
        let _ = write_family(&mut text, family, format);
    }
    if format == Exposition::OpenMetrics {
        text += "# EOF\n";
    }
    text
}

fn write_family(text: &mut String, family: &Family, format: Exposition) -> std::fmt::Result {
    let Family { name, kind, help, samples } = family;
    let ending = match kind {
        Kind::Counter => "_total",
        Kind::Gauge | Kind::Histogram => "",
        Kind::Info => "_info",
    };
    let is_open = format == Exposition::OpenMetrics;
    let of_family = if is_open { "" } else { ending };
    let kind = match kind {
        Kind::Counter => "counter",
        Kind::Info if is_open => "info",
        Kind::Histogram => "histogram",
        Kind::Gauge | Kind::Info => "gauge",
    };
    writeln!(text, "# HELP {name}{of_family} {}", escaped(help, is_open))?;
    writeln!(text, "# TYPE {name}{of_family} {kind}")?;
    let unit = UNITS.iter().find(|unit| name.strip_suffix(*unit).is_some_and(|rest| rest.ends_with('_')));
    if let Some(unit) = unit.filter(|_| is_open) {
        writeln!(text, "# UNIT {name} {unit}")?;
    }
    for Sample { ending: own, labels, value } in samples {
        write!(text, "{name}{own}{ending}")?;
        for (index, (label, of)) in labels.iter().enumerate() {
            write!(text, "{}{label}=\"{}\"", if index == 0 { "{" } else { "," }, escaped(of, true))?;
        }
        writeln!(text, "{} {value}", if labels.is_empty() { "" } else { "}" })?;
    }
    Ok(())
}

/// A text with its special characters escaped. Quotes are special in labels, and in OpenMetrics everywhere.
fn escaped(text: &str, with_quotes: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => escaped += "\\\\",
            '\n' => escaped += "\\n",
            '"' if with_quotes => escaped += "\\\"",
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn families() -> [Family; 3] {
        let of = |name: &'static str, kind, samples| Family {
            name: name.into(),
            kind,
            help: "What \"it\" is.".into(),
            samples,
        };
        let hostile = Sample::with("question", "a\"b\\c\nd".to_string(), 2.0);
        [
            of("weir_bytes", Kind::Counter, vec![Sample::of(3e9)]),
            of("weir_flows_active", Kind::Gauge, vec![hostile]),
            of("weir_build", Kind::Info, vec![Sample::with("version", "1".to_string(), 1.0)]),
        ]
    }

    #[test]
    fn both_formats_say_the_same() {
        let open = "# HELP weir_bytes What \\\"it\\\" is.\n# TYPE weir_bytes counter\n# UNIT weir_bytes bytes\n\
                    weir_bytes_total 3000000000\n\
                    # HELP weir_flows_active What \\\"it\\\" is.\n# TYPE weir_flows_active gauge\n\
                    weir_flows_active{question=\"a\\\"b\\\\c\\nd\"} 2\n\
                    # HELP weir_build What \\\"it\\\" is.\n# TYPE weir_build info\n\
                    weir_build_info{version=\"1\"} 1\n# EOF\n";
        assert_eq!(text(&families(), Exposition::OpenMetrics), open);
        let plain = open
            .replace("\\\"it\\\"", "\"it\"")
            .replace("# UNIT weir_bytes bytes\n", "")
            .replace("# EOF\n", "")
            .replace("HELP weir_bytes ", "HELP weir_bytes_total ")
            .replace("TYPE weir_bytes ", "TYPE weir_bytes_total ")
            .replace("HELP weir_build ", "HELP weir_build_info ")
            .replace("TYPE weir_build info", "TYPE weir_build_info gauge");
        assert_eq!(text(&families(), Exposition::Plain), plain);
    }

    #[test]
    fn the_format_is_the_one_that_the_client_names() {
        let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
        assert_eq!(Exposition::accepted(prometheus), Exposition::OpenMetrics);
        assert_eq!(Exposition::accepted("*/*"), Exposition::Plain);
    }
}
