//! Metrics as text, in the format of OpenMetrics 1.0
//! (<https://prometheus.io/docs/specs/om/open_metrics_spec>), and in the older one of Prometheus, version
//! 0.0.4. They differ in the names of counters in the lines about a family, in units, and at the end.

use super::family::{Family, Kind, Label, Sample, Value};
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
    let Family { name, kind, help, samples, .. } = family;
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
    if let Some(unit) = family.unit().filter(|_| is_open) {
        writeln!(text, "# UNIT {name} {unit}")?;
    }
    samples.iter().try_for_each(|sample| write_sample(text, &format!("{name}{ending}"), sample))
}

/// The lines of a sample. Buckets are cumulative, and the last one has no bound.
fn write_sample(text: &mut String, name: &str, sample: &Sample) -> std::fmt::Result {
    let Sample { labels, value } = sample;
    match value {
        Value::Number(number) => write_line(text, name, labels, None, *number),
        Value::Buckets(buckets) => {
            let bucket = format!("{name}_bucket");
            let mut sum = 0;
            for (bound, count) in buckets {
                sum += count;
                let le = if bound.is_infinite() { "+Inf".to_string() } else { bound.to_string() };
                write_line(text, &bucket, labels, Some(&le), sum as f64)?;
            }
            write_line(text, &format!("{name}_count"), labels, None, sum as f64)
        }
    }
}

fn write_line(
    text: &mut String,
    name: &str,
    labels: &[Label],
    le: Option<&str>,
    value: f64,
) -> std::fmt::Result {
    write!(text, "{name}")?;
    let labels = labels.iter().map(|(label, of)| (&**label, of.as_str()));
    let mut start = '{';
    for (label, of) in labels.chain(le.map(|bound| ("le", bound))) {
        write!(text, "{start}{label}=\"{}\"", escaped(of, true))?;
        start = ',';
    }
    writeln!(text, "{} {value}", if start == ',' { "}" } else { "" })
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
            since: None,
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
