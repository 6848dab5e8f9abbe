//! The dashboard of `examples/grafana` over the metrics of a live run: Prometheus answers each of its
//! queries.

use super::prometheus::{PORTS, Prometheus, can_run_as};
use super::watching::{eventually, mixed};
use super::{Capturing, make_pair, scratch, send};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/grafana");

/// The variable of the data source.
const SOURCE: &str = "${datasource}";

fn dashboard() -> Value {
    let text = fs::read_to_string(Path::new(EXAMPLE).join("weir.json")).expect("the example");
    serde_json::from_str(&text).expect("JSON")
}

fn list<'d>(of: &'d Value, key: &str) -> impl Iterator<Item = &'d Value> {
    of[key].as_array().into_iter().flatten()
}

fn text<'d>(of: &'d Value, key: &str) -> &'d str {
    of[key].as_str().unwrap_or_default()
}

/// Title and query of each target.
fn queries(dashboard: &Value) -> Vec<(&str, &str)> {
    let of = |panel| list(panel, "targets").map(move |target| (text(panel, "title"), text(target, "expr")));
    list(dashboard, "panels").flat_map(of).collect()
}

/// The variables that ask for values, with their queries.
fn variables(dashboard: &Value) -> Vec<(&str, &str)> {
    let all = list(&dashboard["templating"], "list").filter(|variable| text(variable, "type") == "query");
    all.map(|variable| (text(variable, "name"), text(&variable["query"], "query"))).collect()
}

/// What Grafana does not say, but shows: panels at the same place, targets without a source, unknown
/// variables.
#[test]
fn panels_have_places_sources_and_known_variables() {
    let dashboard = dashboard();
    let mut known: BTreeSet<_> = variables(&dashboard).iter().map(|(name, _)| format!("${name}")).collect();
    known.insert("$__rate_interval".to_string());
    let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in list(&dashboard, "panels") {
        let title = text(panel, "title");
        assert!(ids.insert(panel["id"].as_u64()), "{title}: its number is another panel's");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().expect("a place"));
        assert!(x + w <= 24, "{title}: the screen has 24 columns");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(places.insert(cell), "{title}: another panel is at {cell:?}");
        }
        let targets: Vec<_> = list(panel, "targets").collect();
        assert!(text(panel, "type") == "row" || !targets.is_empty(), "{title}: no query");
        for one in targets.iter().copied().chain((text(panel, "type") != "row").then_some(panel)) {
            assert_eq!(text(&one["datasource"], "uid"), SOURCE, "{title}");
        }
    }
    for (title, query) in queries(&dashboard).into_iter().chain(variables(&dashboard)) {
        let used = query.split('$').skip(1).map(|rest| {
            let end = rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
            format!("${}", &rest[..end.unwrap_or(rest.len())])
        });
        used.for_each(|variable| assert!(known.contains(&variable), "{title}: {variable}"));
    }
}

/// Each query returns series, with the variables as Grafana replaces them if `All` is selected.
#[test]
fn every_query_of_the_dashboard_returns_series() {
    if !can_run_as("dashboard::every_query_of_the_dashboard_returns_series") {
        return;
    }
    make_pair(0);
    let folder = scratch("dashboard");
    fs::create_dir_all(&folder).expect("a temporary folder");
    let questions = fs::read_to_string(Path::new(EXAMPLE).join("questions.toml")).expect("the example");
    // Windows of the example are longer than the test.
    let questions = questions
        .replace("every 10s", "every 1s")
        .replace("output = \"", &format!("output = \"{}/", folder.display()));
    let file = folder.join("questions.toml");
    fs::write(&file, questions).expect("a temporary file");
    let capturing = Capturing::start(&["run", file.to_str().expect("UTF-8"), "-i", "in0", "-j", "2"]);
    let is_over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_over);
    let sender = std::thread::spawn(move || {
        while !told.load(Ordering::SeqCst) {
            send("out0", &mixed());
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    let prometheus = Prometheus::start(&folder, &PORTS[..1]);
    let dashboard = dashboard();
    let mut aggregates = BTreeSet::new();
    for (name, query) in variables(&dashboard) {
        let inside = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
        let (metric, label) = inside.and_then(|inside| inside.rsplit_once(", ")).expect("label_values");
        let metric = metric.replace("$instance", ".+");
        // One line for each series: {NAME, LABEL="VALUE"} => …
        let answer = eventually(&format!("values of {name}"), || {
            Some(prometheus.query(&metric)).filter(|answer| answer.contains(" => "))
        });
        match label {
            "__name__" => aggregates
                .extend(answer.lines().filter_map(|line| line.split('{').next().map(str::to_string))),
            label => assert!(answer.contains(&format!("{label}=\"")), "{name}: {answer}"),
        }
    }
    let [aggregate] = &aggregates.into_iter().collect::<Vec<_>>()[..] else { panic!("one aggregate") };
    assert_eq!(aggregate, "weir_aggregate_hosts_bytes_total");
    let queries = queries(&dashboard);
    assert!(queries.len() > 20, "{queries:?}");
    for (title, query) in queries {
        let replaced = [
            ("$instance", ".+"),
            ("$question", ".+"),
            ("$aggregate", aggregate.as_str()),
            ("$__rate_interval", "5s"),
        ];
        let query = replaced.iter().fold(query.to_string(), |query, (from, to)| query.replace(from, to));
        let answer = eventually(&format!("{title}: {query}"), || {
            Some(prometheus.query(&query)).filter(|answer| answer.contains(" => "))
        });
        assert!(!answer.contains("=> NaN"), "{title}: {answer}");
    }
    prometheus.assert_has_no_complaints();
    is_over.store(true, Ordering::SeqCst);
    sender.join().expect("it ends");
    capturing.end();
    let mut check = std::process::Command::new("promtool");
    let checked = check
        .args(["check", "config"])
        .arg(Path::new(EXAMPLE).join("prometheus.yml"))
        .output()
        .expect("it runs");
    assert!(checked.status.success(), "{}", super::text(&checked.stderr));
}
