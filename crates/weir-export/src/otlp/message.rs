//! Messages of OTLP: `opentelemetry/proto/metrics/v1/metrics.proto`.

use super::metric::{Buckets, Metric, Point, Points};
use super::report::Resource;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric as Message, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource as ResourceMessage;
use prost::Message as _;
use std::time::Duration;

/// Bytes of metrics of a request. Receivers refuse messages of more than 4 MiB (gRPC's default). A single
/// value that is longer is a request of its own.
const REQUEST_BYTES_MAX: usize = 2 << 20;

/// Requests that report these metrics, as they are at `now`, time since 1970. Each is below the limit of
/// receivers, unless a single value is not. Without metrics there is none.
pub fn requests(
    resource: &Resource,
    metrics: Vec<Metric>,
    now: Duration,
) -> Vec<ExportMetricsServiceRequest> {
    let (mut requests, mut collected, mut bytes) = (vec![], vec![], 0);
    for metric in metrics {
        for part in parts(metric, nanoseconds(now)) {
            let more = part.encoded_len();
            if bytes + more > REQUEST_BYTES_MAX && !collected.is_empty() {
                requests.push(request(resource, std::mem::take(&mut collected)));
                bytes = 0;
            }
            bytes += more;
            collected.push(part);
        }
    }
    if !collected.is_empty() {
        requests.push(request(resource, collected));
    }
    requests
}

fn request(resource: &Resource, metrics: Vec<Message>) -> ExportMetricsServiceRequest {
    let attributes = [
        ("service.name", &resource.name),
        ("service.version", &resource.version),
        ("service.instance.id", &resource.instance),
    ];
    let attributes = attributes.map(|(name, value)| attribute(name.to_string(), value.clone()));
    let scope = InstrumentationScope {
        name: resource.name.clone(),
        version: resource.version.clone(),
        ..InstrumentationScope::default()
    };
    let scope_metrics = ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() };
    let resource = ResourceMessage { attributes: attributes.to_vec(), ..ResourceMessage::default() };
    let resource_metrics = ResourceMetrics {
        resource: Some(resource),
        scope_metrics: vec![scope_metrics],
        ..ResourceMetrics::default()
    };
    ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] }
}

/// The messages of a metric: one, or several if it has many values.
fn parts(metric: Metric, now: u64) -> Vec<Message> {
    let Metric { name, description, unit, begun, points } = metric;
    let start = nanoseconds(begun);
    let cumulative = AggregationTemporality::Cumulative.into();
    let data: Vec<Data> = match points {
        Points::Sums(points) => split(points.into_iter().map(|point| number(point, start, now)))
            .map(|data_points| {
                Data::Sum(Sum { data_points, aggregation_temporality: cumulative, is_monotonic: true })
            })
            .collect(),
        Points::Gauges(points) => split(points.into_iter().map(|point| number(point, 0, now)))
            .map(|data_points| Data::Gauge(Gauge { data_points }))
            .collect(),
        Points::Histograms(points) => split(points.into_iter().map(|point| histogram(point, start, now)))
            .map(|data_points| {
                Data::Histogram(Histogram { data_points, aggregation_temporality: cumulative })
            })
            .collect(),
    };
    let message = |data| Message {
        name: name.clone(),
        description: description.clone(),
        unit: unit.to_string(),
        data: Some(data),
        ..Message::default()
    };
    data.into_iter().map(message).collect()
}

/// Groups of values, each of up to half the bytes of a request.
fn split<P: prost::Message>(points: impl Iterator<Item = P>) -> impl Iterator<Item = Vec<P>> {
    let mut points = points.peekable();
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let mut group = vec![points.next()?];
        bytes += group[0].encoded_len();
        while let Some(point) = points.next_if(|next| bytes + next.encoded_len() <= REQUEST_BYTES_MAX / 2) {
            bytes += point.encoded_len();
            group.push(point);
        }
        Some(group)
    })
}

fn number(Point { attributes, value }: Point<f64>, start_time_unix_nano: u64, now: u64) -> NumberDataPoint {
    NumberDataPoint {
        attributes: of_point(attributes),
        start_time_unix_nano,
        time_unix_nano: now,
        value: Some(Number::AsDouble(value)),
        ..NumberDataPoint::default()
    }
}

fn histogram(point: Point<Buckets>, start_time_unix_nano: u64, now: u64) -> HistogramDataPoint {
    let Point { attributes, value: Buckets { bounds, counts } } = point;
    HistogramDataPoint {
        attributes: of_point(attributes),
        start_time_unix_nano,
        time_unix_nano: now,
        count: counts.iter().sum(),
        bucket_counts: counts,
        explicit_bounds: bounds,
        ..HistogramDataPoint::default()
    }
}

fn of_point(attributes: Vec<(String, String)>) -> Vec<KeyValue> {
    attributes.into_iter().map(|(name, value)| attribute(name, value)).collect()
}

fn attribute(key: String, value: String) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value)) });
    KeyValue { key, value, ..KeyValue::default() }
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}
