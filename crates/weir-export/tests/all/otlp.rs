//! Requests for a collector have a bounded size.

use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use prost::Message;
use std::time::Duration;
use weir_export::otlp::{Metric, Point, Points, Resource, requests};

/// The default limit of gRPC.
const RECEIVED_MAX: usize = 4 << 20;

#[test]
fn many_values_are_several_requests_below_the_limit_of_receivers() {
    let point = |number: usize| Point {
        attributes: vec![("key".to_string(), format!("{number:0>1000}"))],
        value: number as f64,
    };
    let metric = |name: &str, points| Metric {
        name: name.to_string(),
        description: String::new(),
        unit: "",
        begun: Duration::ZERO,
        points: Points::Gauges(points),
    };
    let long = Point { attributes: vec![("key".to_string(), "x".repeat(3 << 20))], value: 1.0 };
    let metrics = vec![
        metric("many", (0..5_000).map(point).collect()),
        metric("long", vec![long]),
        metric("none", vec![]),
        metric("few", (0..5).map(point).collect()),
    ];
    let resource = Resource { name: "n".into(), version: "1".into(), instance: "i".into() };
    let requests = requests(&resource, metrics, Duration::from_secs(1));
    assert!(requests.iter().all(|request| request.encoded_len() < RECEIVED_MAX));
    assert!(requests.len() > 3, "{}", requests.len());
    let mut values = vec![];
    for request in &requests {
        for message in &request.resource_metrics[0].scope_metrics[0].metrics {
            let Some(Data::Gauge(gauge)) = &message.data else { panic!("{message:?}") };
            values.extend(gauge.data_points.iter().map(|point| (message.name.clone(), point.value)));
        }
    }
    let of = |name: &str, count: usize| -> Vec<_> {
        (0..count).map(|number| (name.to_string(), Some(Value::AsDouble(number as f64)))).collect()
    };
    let long = vec![("long".to_string(), Some(Value::AsDouble(1.0)))];
    assert!(values == [of("many", 5_000), long, of("few", 5)].concat());
}
