//! `--otlp`: metrics for a collector of OpenTelemetry. Names, labels and values are those of the page; a
//! collector that passes metrics on to Prometheus adds `_total` to the names of counters.

use super::families::Metrics;
#[cfg(any(feature = "otlp", test))]
use super::family::{Family, Kind, Sample, Value};
use crate::compiled_in::HAS_OTLP;
use crate::messages::failure::Failure;
use crate::names;
use crate::spec::QuestionSpec;
use std::collections::BTreeSet;
use std::time::Duration;
#[cfg(any(feature = "otlp", test))]
use weir_export::otlp::{Buckets, Metric, Point, Points};

/// The port of collectors for OTLP over gRPC.
const PORT: u16 = 4317;

/// `HOST[:4317]`, as host and port.
///
/// # Errors
/// The text is none; this weir is built without OTLP.
pub fn collector(text: &str) -> Result<String, String> {
    if !HAS_OTLP {
        return Err("this weir is built without OTLP: build it with `cargo install --path crates/weir-cli --features otlp`"
            .to_string());
    }
    address(text)
}

fn address(text: &str) -> Result<String, String> {
    names::authority(text, PORT).ok_or_else(|| {
        format!(
            "write HOST or HOST:{PORT}, without a scheme, and with an IPv6 address in brackets; there is no TLS: a collector \
             on this host can have it"
        )
    })
}

/// The name of this instance: that of the sensor, if the questions name one; otherwise that of the host, and
/// the process.
pub fn instance(specs: &[QuestionSpec]) -> String {
    let sensors: BTreeSet<_> = specs.iter().filter_map(|spec| spec.sensor.as_deref()).collect();
    match sensors.first() {
        Some(sensor) if sensors.len() == 1 => sensor.to_string(),
        _ => format!("{}:{}", names::host_name(), std::process::id()),
    }
}

/// The thread that sends metrics until the end of the run.
pub struct Sending {
    #[cfg(feature = "otlp")]
    exporter: weir_export::otlp::Exporter,
}

impl Sending {
    /// Sends metrics from now on. Messages say where, and what goes wrong.
    ///
    /// # Errors
    /// The system makes no thread.
    #[cfg(feature = "otlp")]
    pub fn start(
        collector: &str,
        interval: Duration,
        instance: String,
        metrics: Metrics,
    ) -> Result<Self, Failure> {
        use weir_export::otlp::{Event, Exporter, Resource, Settings};
        let settings = Settings {
            authority: collector.to_string(),
            interval,
            resource: Resource {
                name: "weir".to_string(),
                version: env!("CARGO_PKG_VERSION").to_string(),
                instance,
            },
        };
        let name = format!("--otlp {collector}");
        let notify = move |event| match event {
            Event::Failed(why) => {
                note!("weir: {name}: the collector does not accept metrics ({why}): Weir tries again");
            }
            Event::Recovered => note!("weir: {name}: the collector accepts metrics again"),
            Event::Rejected(why) => {
                say!(
                    "weir: {name}: the collector rejects some metrics ({why}); weir_otlp_rejected_values_total counts them"
                );
            }
            Event::LastFailed(why) => {
                say!("weir: {name}: the collector did not accept the last metrics ({why})")
            }
        };
        let exports = metrics.exports.clone().unwrap_or_default();
        let begun = metrics.begun;
        let collect =
            move || metrics.families().into_iter().map(|family| metric(family, begun)).collect::<Vec<_>>();
        let failed = |error| Failure::new(format!("--otlp {collector}: {error}"));
        let exporter = Exporter::start(settings, exports, collect, notify).map_err(failed)?;
        note!("weir: metrics are sent to {collector} every {} s", interval.as_secs_f64());
        Ok(Self { exporter })
    }

    /// Without the feature, [`collector`] accepts no text.
    #[cfg(not(feature = "otlp"))]
    pub fn start(text: &str, _: Duration, _: String, _: Metrics) -> Result<Self, Failure> {
        collector(text).map_err(Failure::new)?;
        Ok(Self {})
    }

    /// Sends the last metrics.
    pub fn finish(self) {
        #[cfg(feature = "otlp")]
        self.exporter.finish();
    }
}

/// The same metrics in the terms of OTLP. `begun`: start of the run.
#[cfg(any(feature = "otlp", test))]
fn metric(family: Family, begun: Duration) -> Metric {
    let unit = match family.unit() {
        Some("bytes") => "By",
        Some("seconds") => "s",
        _ => "",
    };
    let Family { name, kind, help, since, samples } = family;
    let numbers =
        |samples: Vec<Sample>| samples.into_iter().filter_map(|sample| point(sample, number)).collect();
    let points = match kind {
        Kind::Counter => Points::Sums(numbers(samples)),
        Kind::Gauge | Kind::Info => Points::Gauges(numbers(samples)),
        Kind::Histogram => {
            Points::Histograms(samples.into_iter().filter_map(|sample| point(sample, buckets)).collect())
        }
    };
    let name = if kind == Kind::Info { format!("{name}_info") } else { name.into_owned() };
    Metric { name, description: help.into_owned(), unit, begun: since.unwrap_or(begun), points }
}

#[cfg(any(feature = "otlp", test))]
fn point<V>(sample: Sample, of: fn(Value) -> Option<V>) -> Option<Point<V>> {
    let attributes = sample.labels.into_iter().map(|(label, of)| (label.into_owned(), of)).collect();
    Some(Point { attributes, value: of(sample.value)? })
}

#[cfg(any(feature = "otlp", test))]
fn number(value: Value) -> Option<f64> {
    match value {
        Value::Number(number) => Some(number),
        Value::Buckets(_) => None,
    }
}

#[cfg(any(feature = "otlp", test))]
fn buckets(value: Value) -> Option<Buckets> {
    let Value::Buckets(buckets) = value else { return None };
    let bounds = buckets.iter().map(|(bound, _)| *bound).filter(|bound| bound.is_finite()).collect();
    Some(Buckets { bounds, counts: buckets.iter().map(|(_, count)| *count).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_its_counterpart() {
        let of = |name: &'static str, kind, value| Family {
            name: name.into(),
            kind,
            help: "Its meaning.".into(),
            since: (kind == Kind::Histogram).then(|| Duration::from_secs(9)),
            samples: vec![Sample { labels: vec![("a".into(), "b".to_string())], value }],
        };
        let buckets = Value::Buckets(vec![(99.0, 3), (199.0, 0), (f64::INFINITY, 2)]);
        let begun = Duration::from_secs(7);
        let made = [
            of("weir_bytes", Kind::Counter, Value::Number(5.0)),
            of("weir_flows_active", Kind::Gauge, Value::Number(6.0)),
            of("weir_build", Kind::Info, Value::Number(1.0)),
            of("weir_aggregate_h", Kind::Histogram, buckets),
        ]
        .map(|family| metric(family, begun));
        let attributes = || vec![("a".to_string(), "b".to_string())];
        let point = |value| vec![Point { attributes: attributes(), value }];
        let metric = |name: &str, unit, seconds, points| Metric {
            name: name.to_string(),
            description: "Its meaning.".to_string(),
            unit,
            begun: Duration::from_secs(seconds),
            points,
        };
        let histogram = Buckets { bounds: vec![99.0, 199.0], counts: vec![3, 0, 2] };
        let wanted = [
            metric("weir_bytes", "By", 7, Points::Sums(point(5.0))),
            metric("weir_flows_active", "", 7, Points::Gauges(point(6.0))),
            metric("weir_build_info", "", 7, Points::Gauges(point(1.0))),
            metric(
                "weir_aggregate_h",
                "",
                9,
                Points::Histograms(vec![Point { attributes: attributes(), value: histogram }]),
            ),
        ];
        assert_eq!(made, wanted);
    }

    #[test]
    fn collectors_have_a_default_port() {
        for (text, authority) in [
            ("collector", "collector:4317"),
            ("192.0.2.1:1", "192.0.2.1:1"),
            ("[::1]", "[::1]:4317"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(address(text).as_deref(), Ok(authority));
        }
        for wrong in
            ["", "http://host:4317", "https://host", "::1", "host:0", "host:70000", "ho st", "host/x"]
        {
            let said = address(wrong).expect_err(wrong);
            assert!(said.contains("write HOST or HOST:4317"), "{said}");
        }
    }

    #[cfg(not(feature = "otlp"))]
    #[test]
    fn a_build_without_the_feature_says_how_to_build_with_it() {
        let said = collector("host").expect_err("it is built without");
        assert!(said.contains("--features otlp"), "{said}");
    }
}
