// SPDX-License-Identifier: Apache-2.0

//! Tests with a real Prometheus that scrapes the exporter and stores native histograms.

use std::{
    collections::BTreeMap,
    env, fs,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
};

use percent_encoding::{utf8_percent_encode, NON_ALPHANUMERIC};
use rclrs_topic_statistics::{Distribution, Metric, SourceKind};
use serde_json::Value;
use test_support::{wait_for, Process};
use topic_statistics_observe::ros::testing::status;

use crate::{
    common::{ages, folder, get, health, request, window, Series, FIGURES},
    exporter::Exporter,
};

pub struct Prometheus {
    address: SocketAddr,
    _process: Process,
}

/// Returns the path of a program. If the program is not installed, logs that the test `what` is skipped.
pub fn find(name: &str, what: &str) -> Option<PathBuf> {
    let paths = env::var_os("PATH").unwrap_or_default();
    let program = env::split_paths(&paths).map(|path| path.join(name)).find(|program| program.is_file());
    if program.is_none() {
        test_support::skip(what, &format!("there is no {name} on this machine"));
    }
    program
}

pub fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

impl Prometheus {
    /// Starts a Prometheus that scrapes an exporter each second, and stores its files in `directory`.
    fn start(program: &Path, target: SocketAddr, directory: &Path) -> Self {
        let rules = fs::canonicalize(folder("grafana")).unwrap();
        let rules = ["alerts.yml", "rules.yml"].map(|name| rules.join(name));
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: {rules:?}\n\
             scrape_configs:\n- job_name: topic_statistics\n  static_configs: [{{targets: ['{target}']}}]\n"
        );
        Self::start_at(program, free_port(), directory, &text, &["--enable-feature=native-histograms"])
    }

    pub fn start_at(
        program: &Path,
        address: SocketAddr,
        directory: &Path,
        configuration: &str,
        arguments: &[&str],
    ) -> Self {
        fs::create_dir_all(directory).unwrap();
        let file = directory.join("prometheus.yml");
        fs::write(&file, configuration).unwrap();
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", directory.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=error")
            .args(arguments);
        let process = Process::spawn(&mut command);
        wait_for("Prometheus", || {
            request(address, "GET /-/ready HTTP/1.0\r\n\r\n").is_ok_and(|response| response.status == 200)
        });
        Self { address, _process: process }
    }

    /// Returns the result of a query. Panics if the query is not valid.
    fn query(&self, query: &str) -> Vec<Value> {
        let query_text = utf8_percent_encode(query, NON_ALPHANUMERIC);
        let response = get(self.address, &format!("/api/v1/query?query={query_text}"));
        let json: Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!(json["status"], "success", "{query}: {json}");
        json["data"]["result"].as_array().unwrap().clone()
    }

    /// Returns the value of a query that has at most one result. Returns `None` if there is no result.
    fn value(&self, query: &str) -> Option<f64> {
        let result = self.query(query);
        assert!(result.len() <= 1, "{query}: {result:#?}");
        result.first().map(|result| result["value"][1].as_str().unwrap().parse().unwrap())
    }

    /// Returns the values of all time series `topic_statistics_...`, except histograms.
    fn all_values(&self) -> BTreeMap<String, f64> {
        let result = self.query(r#"{__name__=~"topic_statistics_[^:]*"}"#);
        let values = result.iter().filter_map(|series| {
            let value = series["value"][1].as_str()?.parse().unwrap();
            let labels = series["metric"].as_object().unwrap().iter();
            let labels = labels.filter(|(name, _)| !["__name__", "instance", "job"].contains(&&***name));
            let labels: Vec<_> = labels.map(|(name, value)| format!("{name}={value}")).collect();
            Some((
                format!("{}{{{}}}", series["metric"]["__name__"].as_str().unwrap(), labels.join(",")),
                value,
            ))
        });
        values.collect()
    }

    /// Returns the samples of one time series in the last 10 minutes.
    pub fn samples(&self, series: &str) -> Vec<usize> {
        let result = self.query(&format!("{series}[10m]"));
        let samples = result.iter().flat_map(|series| series["values"].as_array().unwrap());
        samples.map(|sample| sample[1].as_str().unwrap().parse().unwrap()).collect()
    }

    /// Returns whether a result of a query is a finite number or a histogram.
    fn has_number(&self, query: &str) -> bool {
        self.query(query).iter().any(|result| {
            let value = result["value"][1].as_str().map(|value| value.parse::<f64>().unwrap());
            value.is_some_and(f64::is_finite) || result["histogram"][1]["count"].is_string()
        })
    }
}

/// Returns a time series as text: its name, and its labels sorted by their names.
fn sorted(name: &str) -> String {
    let (name, labels) = name.trim_end_matches('}').split_once('{').unwrap_or((name, ""));
    let mut labels: Vec<_> = labels.split_inclusive("\",").map(|label| label.trim_end_matches(',')).collect();
    labels.sort_unstable();
    format!("{name}{{{}}}", labels.join(","))
}

/// Adds a window of each kind of source. Some windows are long, so that their gauges are exported for a long time.
fn publish_everything(exporter: &Exporter, stop: i32) {
    let long = |source: &str, metric: &str, figures| {
        let mut message = window(source, metric, stop, figures);
        message.window_start.sec = 0;
        exporter.window(&message);
    };
    for metric in Metric::ALL {
        long("/robot:/imu", metric.name(), FIGURES);
        long("/robot:/late", metric.name(), [-2.0, 4.0, -3.0, 50.0, 0.5]);
    }
    for (source, metric) in [
        ("/robot:/imu", "jitter"),
        ("cpp_listener", "message_age"),
        ("host", "clock_offset_ms"),
        ("/robot:frames", "frequency_hz"),
        ("/robot:get_image", "duration_ms"),
        ("/robot:/image", "publish_period"),
        ("/robot:/image", "publish_duration_ms"),
    ] {
        long(source, metric, FIGURES);
    }
    for (source, kind) in [
        ("/listener:/imu", SourceKind::Subscription),
        ("/talker:/imu", SourceKind::Publisher),
        ("/robot:/plan", SourceKind::Service),
        ("/robot:/map", SourceKind::Client),
        ("/robot:timer/10ms", SourceKind::Timer),
        ("/robot:executor", SourceKind::Executor),
        ("/robot:/dock", SourceKind::ActionServer),
        ("/robot:/charge", SourceKind::ActionClient),
    ] {
        kind.metrics().iter().for_each(|metric| long(source, metric.name(), [8.0, 8.0, 8.0, 1.0, 0.0]));
    }
    let mut samples = Distribution::default();
    (1..=500).for_each(|sample| assert!(samples.accept(0.01 * f64::from(sample + stop))));
    exporter.ages(&ages("/robot:/imu", stop, &samples));
    exporter.losses("/robot", "/imu", 5);
    exporter.status(&status("/robot: Topic statistics", 1, &[]));
    exporter.status(&health("/robot:/imu", 2, "rate>=50 age.p99<50ms", 0));
    exporter.status(&health("/robot:/late", 0, "rate>=1", stop.unsigned_abs().into()));
}

#[test]
fn prometheus_has_what_the_exporter_has() {
    let Some(program) = find("prometheus", "the exporter with Prometheus") else { return };
    let exporter = Exporter::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let prometheus = Prometheus::start(&program, exporter.address(), directory.path());
    wait_for("a scrape", || prometheus.value("up") == Some(1.0));
    // Both counters of losses are above 0 before their first scrape. Prometheus still has to see an increase.
    exporter.losses("/a", "/by_event", 500);
    exporter.window(&window("/a:/by_gap", "publication_seq_gap", 100, [0.7, 7.0, 0.0, 10.0, 0.1]));
    for (topic, name, lost) in
        [("/by_event", "messages_reported_lost", 500.0), ("/by_gap", "messages_lost", 7.0)]
    {
        let increase = format!("increase(topic_statistics_{name}_total{{topic=\"{topic}\"}}[1m])");
        wait_for(&increase, || prometheus.value(&increase) >= Some(lost));
        let alert =
            format!("ALERTS{{alertname=~\".*MessagesLost\",topic=\"{topic}\",alertstate=\"firing\"}}");
        wait_for(&alert, || prometheus.value(&alert) == Some(1.0));
    }

    panels_without_data_say_what_they_need(&exporter, &prometheus);
    quantiles_are_ours(&exporter, &prometheus);

    // The test waits until each expression of the dashboards has a number as result. Rates need counters that grow, so
    // windows are added while it waits.
    let mut stop = 100;
    for query in panels(&exporter.address().to_string()).iter().flat_map(|panel| &panel.queries) {
        wait_for(query, || {
            publish_everything(&exporter, stop);
            stop += 1;
            prometheus.has_number(query)
        });
    }
    // Prometheus reads protobuf. Its last values are equal to the exporter's values in the text format.
    let mut difference = vec![];
    wait_for("the last scrape", || {
        let (mut text, all) = (Series::scrape(exporter.address()).0, prometheus.all_values());
        text.retain(|name, _| name.starts_with("topic_statistics_"));
        difference = text.iter().map(|(name, value)| (sorted(name), *value)).collect();
        difference.retain(|(name, value)| all.get(name) != Some(value));
        difference.is_empty() && all.len() >= text.len()
    });
    let Some(promtool) = find("promtool", "the exporter with promtool") else { return };
    let page = directory.path().join("metrics");
    fs::write(&page, get(exporter.address(), "/metrics").body).unwrap();
    let mut check = Command::new(promtool);
    let output = check.args(["check", "metrics"]).stdin(fs::File::open(page).unwrap()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
}

/// Checks that a quantile of Prometheus equals the quantile of the merged distributions. The tolerance is one and a
/// half bucket widths: one for the position in a bucket, and a half for the conversion from milliseconds to seconds.
fn quantiles_are_ours(exporter: &Exporter, prometheus: &Prometheus) {
    let mut merged = Distribution::default();
    for stop in [100, 101] {
        let mut samples = Distribution::default();
        for sample in -19..=500 {
            assert!(samples.accept(0.0004 * f64::from(stop * sample) * f64::from(sample).abs()));
        }
        exporter.ages(&ages("/robot:/scan", stop, &samples));
        assert!(merged.merge(&samples));
    }
    let series = r#"topic_statistics_message_age_distribution_seconds{node="/robot",topic="/scan"}"#;
    wait_for("distributions", || prometheus.value(&format!("histogram_count({series})")) == Some(1040.0));
    let sum = prometheus.value(&format!("histogram_sum({series})")).unwrap();
    assert!((sum - merged.sum() * 1e-3).abs() < 1e-9 * sum, "{sum}, not {} ms", merged.sum());
    let error = (1.0 + merged.relative_error()).powf(1.5);
    for quantile in [0.005, 0.5, 0.9, 0.99] {
        let theirs = prometheus.value(&format!("histogram_quantile({quantile}, {series})")).unwrap();
        let ratio = theirs / (merged.quantile(quantile) * 1e-3);
        assert!(ratio < error && ratio > 1.0 / error, "p{quantile}: {theirs}, {ratio}");
    }
}

/// A panel of a dashboard: the title, the text that the panel shows if it has no data, and the expressions.
struct Panel {
    title: String,
    no_value: String,
    queries: Vec<String>,
}

/// Returns the panels of the dashboards. In their expressions, the variables are replaced in the same way as by
/// Grafana: `$instance` is replaced by `instance`, which is one robot, and the other variables have the value "all".
fn panels(instance: &str) -> Vec<Panel> {
    let query = |expression: &str| {
        let query = expression
            .replace("=\"$instance\"", &format!("=\"{instance}\""))
            .replace("\"$instance\"", "\".*\"")
            .replace("$__rate_interval", "10s");
        let query = ["$job", "$node", "$topic"].iter().fold(query, |query, name| query.replace(name, ".*"));
        assert!(!query.contains('$'), "{query}");
        query
    };
    let mut all = vec![];
    for dashboard in ["fleet.json", "robot.json"] {
        let text = fs::read_to_string(folder("grafana").join(dashboard)).unwrap();
        let json: Value = serde_json::from_str(&text).unwrap();
        let panels = json["panels"].as_array().unwrap();
        assert!(panels.len() >= 20, "{dashboard} has {} panels", panels.len());
        all.extend(panels.iter().map(|panel| {
            Panel {
                title: format!("{dashboard}: {}", panel["title"].as_str().unwrap()),
                no_value: panel["fieldConfig"]["defaults"]["noValue"].as_str().unwrap_or_default().to_owned(),
                queries: panel["targets"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|target| query(target["expr"].as_str().unwrap()))
                    .collect(),
            }
        }));
    }
    all
}

/// If a node publishes only the default statistics, some panels have no data. Each of these panels says what it needs.
fn panels_without_data_say_what_they_need(exporter: &Exporter, prometheus: &Prometheus) {
    let panels = panels(&exporter.address().to_string());
    let has_data = |panel: &Panel| panel.queries.iter().any(|query| prometheus.has_number(query));
    let of_robot = ["Rate", "Period", "Age", "Time since the last window", "Exporter"];
    let of_fleet = ["Robots", "Subscriptions", "Messages per second", "Oldest messages: average age"];
    let titles = of_robot.iter().map(|title| format!("robot.json: {title}"));
    let titles = titles.chain(of_fleet.iter().map(|title| format!("fleet.json: {title}")));
    let mut stop = 100;
    for title in titles {
        let panel = panels.iter().find(|panel| panel.title == title).unwrap();
        wait_for(&title, || {
            stop += 1;
            for metric in ["message_age", "message_period"] {
                exporter.window(&window("/listener:/imu", metric, stop, FIGURES));
            }
            has_data(panel)
        });
    }
    for panel in panels.iter().filter(|panel| !has_data(panel)) {
        let is_said = ["Needs ", "None: "].iter().any(|start| panel.no_value.starts_with(start));
        assert!(is_said, "{}: {:?}", panel.title, panel.no_value);
    }
}
