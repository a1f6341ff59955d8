// SPDX-License-Identifier: Apache-2.0

//! A real Prometheus, with native histograms, scrapes the exporter.

use std::{
    env, fs,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rclrs_topic_statistics::{Distribution, SourceKind};
use ros_env::{builtin_interfaces::msg::Time, statistics_msgs::msg::MetricsMessage};
use serde_json::Value;
use test_support::{domain, program, wait_for, Process, Reader};

use crate::{
    process::{get, Exporter},
    robot::{message, Figures, Robot},
};

/// Prometheus, with files of its own, which scrapes an exporter each second.
pub struct Prometheus {
    pub address: SocketAddr,
    // Ends before its directory.
    _process: Process,
    _directory: tempfile::TempDir,
}

/// The samples of a time series: times (s) and values.
type Samples = Vec<(f64, f64)>;

/// Returns a program of Prometheus's package. Logs that `what` is skipped if there is none.
pub fn find(name: &str, what: &str) -> Option<PathBuf> {
    let paths = env::var_os("PATH").unwrap_or_default();
    let program = env::split_paths(&paths).map(|path| path.join(name)).find(|program| program.is_file());
    if program.is_none() {
        test_support::skip(what, &format!("there is no {name} on this machine"));
    }
    program
}

/// Returns a folder of the repository.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// Returns a port that nobody listens at.
pub fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

impl Prometheus {
    pub fn start(program: &Path, target: SocketAddr, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let configuration = directory.path().join("prometheus.yml");
        let rules = fs::canonicalize(folder("grafana")).unwrap();
        let rules = ["alerts.yml", "rules.yml"].map(|name| rules.join(name));
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: {rules:?}\n\
             scrape_configs:\n- job_name: topic_statistics\n  static_configs:\n  - {{targets: ['{target}'], \
             labels: {{robot: r1}}}}\n"
        );
        fs::write(&configuration, text).unwrap();
        let address = free_port();
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .args(["--enable-feature=native-histograms", "--log.level=warn"])
            .args(arguments);
        let process = Process::spawn(&mut command);
        wait_for("Prometheus", || {
            crate::process::try_request(address, "GET /-/ready HTTP/1.0\r\n\r\n")
                .is_ok_and(|response| response.status == 200)
        });
        Self { address, _directory: directory, _process: process }
    }

    /// Returns the result of a query. Panics if the query is wrong.
    pub fn query(&self, query: &str) -> Vec<Value> {
        let encode = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        };
        let query_text: String = query.bytes().map(encode).collect();
        let response = get(self.address, &format!("/api/v1/query?query={query_text}"));
        let json: Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!(json["status"], "success", "{query}: {json}");
        json["data"]["result"].as_array().unwrap().clone()
    }

    /// Returns the value of a query with one result. `None` without a result.
    pub fn value(&self, query: &str) -> Option<f64> {
        let result = self.query(query);
        assert!(result.len() <= 1, "{query}: {result:#?}");
        result.first().map(|result| result["value"][1].as_str().unwrap().parse().unwrap())
    }

    /// Returns the value of a query when it has one. It has none while the last scrape is one that has failed.
    fn number(&self, query: &str) -> f64 {
        let mut value = None;
        wait_for(query, || {
            value = self.value(query);
            value.is_some()
        });
        value.unwrap()
    }

    /// Returns whether a query has a number among its results.
    pub fn has_number(&self, query: &str) -> bool {
        self.query(query).iter().any(|result| {
            let value = result["value"][1].as_str().map(|value| value.parse::<f64>().unwrap());
            value.is_some_and(f64::is_finite) || result["histogram"][1]["count"].is_string()
        })
    }

    /// Returns the samples that were scraped of one time series in the last minutes.
    fn samples(&self, series: &str) -> Samples {
        let result = self.query(&format!("{series}[10m]"));
        assert!(result.len() <= 1, "{series}: {result:#?}");
        let samples = |result: &Value| result["values"].as_array().unwrap().clone();
        let sample =
            |sample: Value| (sample[0].as_f64().unwrap(), sample[1].as_str().unwrap().parse().unwrap());
        result.first().map(samples).unwrap_or_default().into_iter().map(sample).collect()
    }
}

const IMU: &str = r#"{node="/listener",topic="/imu"}"#;
const CPP: &str = r#"{node="cpp_listener"}"#;
const ALL_METRICS: &str = "metrics:=[message_age, message_period, header_to_source_ms, source_to_receive_ms, \
                           receive_to_callback_ms, source_to_callback_ms, header_to_callback_ms, callback_duration_ms, \
                           publication_seq_gap, time_since_last_message_ms, clock_offset_ms, message_size]";

fn listener(domain: u32) -> Process {
    let arguments = ["--ros-args", "-p", ALL_METRICS, "-p", "topic_statistics.distributions:=true"];
    Process::start(program("listener"), &arguments, domain)
}

#[test]
fn it_has_the_figures_that_a_reader_got() {
    let Some(prometheus) = find("prometheus", "the exporter with Prometheus") else { return };
    let domain = domain();
    let address = free_port().to_string();
    let exporter = Exporter::start(&["--listen", &address], domain);
    let prometheus = Prometheus::start(&prometheus, exporter.address, &[]);
    let mut reader = Reader::start_with_depth(domain, 2000);
    let robot = Robot::start();
    // Both will receive the same windows.
    wait_for("the reader", || robot.readers() == 2);
    publish_what_others_do_not(&robot);
    let _talker = Process::start(program("talker"), &["--ros-args", "-p", "rate:=50.0"], domain);
    let script = folder("testing/test_support/programs/rclcpp_statistics.py");
    let _cpp = Process::start("python3", &[script.to_str().unwrap()], domain);
    let first = listener(domain);

    // Figures are compared that the reader has, too: it may discover a node later than the exporter.
    for (source, labels, number) in [("/listener:/imu", IMU, 6), ("cpp_listener", CPP, 4)] {
        let age = format!("topic_statistics_message_age_mean_seconds{labels}");
        wait_for(&format!("ages of {source} in Prometheus"), || {
            reader.read_received();
            let windows = reader.windows(source, "message_age");
            let is_read = |age: f64| windows.iter().any(|window| window.average() * 1e-3 == age);
            prometheus.samples(&age).into_iter().filter(|(_, age)| is_read(*age)).count() >= number
        });
    }
    let scraped = scraped_figures(&prometheus);
    let last_scrape =
        scraped.iter().flat_map(|(_, _, samples)| samples).map(|(time, _)| *time).fold(0.0, f64::max);
    reader.read_until("windows after the last scrape", |metrics| {
        let is_later = |metric: &&test_support::Metric| metric.stop as f64 / 1e9 > last_scrape + 1.0;
        metrics.iter().filter(|metric| metric.source == "/listener:/imu").any(|metric| is_later(&metric))
    });
    assert_figures_are_those_of(&reader, &scraped);
    assert_counts_grow_with_the_windows_of(&reader, &prometheus);
    assert_quantiles_are_ours(&prometheus, &robot);
    assert_dashboards_have_data(&prometheus, &robot);
    assert_counters_survive_restarts(&prometheus, exporter, first, &address, domain);
}

/// Metrics that nodes of the test cannot have: the host's clock may not be synchronised, and nothing is lost. The
/// windows are long, so that their gauges do not end before the test.
pub fn publish_what_others_do_not(robot: &Robot) {
    for (source, metric, figures) in [
        ("host", "clock_offset_ms", [0.25, 0.25, 0.25, 1.0, f64::NAN]),
        ("/robot:frames", "frequency_hz", [50.0, 50.0, 50.0, 50.0, f64::NAN]),
        ("/robot:get_image", "duration_ms", [8.0, 9.0, 7.0, 20.0, 0.5]),
        ("/robot:/image", "publish_period", [50.0, 60.0, 40.0, 19.0, 5.0]),
        ("/robot:/image", "publish_duration_ms", [0.5, 0.6, 0.4, 20.0, 0.05]),
    ] {
        publish_long_window(robot, source, metric, figures);
    }
    for (source, kind) in [
        ("/robot:/plan", SourceKind::Service),
        ("/robot:/map", SourceKind::Client),
        ("/robot:timer/10ms", SourceKind::Timer),
        ("/robot:executor", SourceKind::Executor),
        ("/robot:/dock", SourceKind::ActionServer),
        ("/robot:/charge", SourceKind::ActionClient),
    ] {
        for metric in kind.metrics() {
            publish_long_window(robot, source, metric.name(), [8.0, 8.0, 8.0, 1.0, 0.0]);
        }
    }
    robot.publish_losses("/robot", "/imu", 5);
    robot.publish_diagnostic("/robot: Topic statistics", 1);
    robot.publish_health("/robot:/imu", 2, "rate>=50 age.p99<50ms", 0);
    robot.publish_health("/listener:/imu", 0, "rate>=1", 0);
}

fn publish_long_window(robot: &Robot, source: &str, metric: &str, figures: Figures) {
    let window_start = Time { sec: 0, nanosec: 0 };
    robot.publish_message(MetricsMessage { window_start, ..message(source, metric, 100, figures) });
}

/// A source, the metric and the figure as on /statistics, and the scraped value.
type Scraped = (&'static str, (&'static str, &'static str), Samples);

fn scraped_figures(prometheus: &Prometheus) -> Vec<Scraped> {
    const METRICS: [(&str, &str); 9] = [
        ("message_age", "message_age"),
        ("message_period", "message_period"),
        ("header_to_source_ms", "header_to_source"),
        ("source_to_receive_ms", "source_to_receive"),
        ("receive_to_callback_ms", "receive_to_callback"),
        ("source_to_callback_ms", "source_to_callback"),
        ("header_to_callback_ms", "header_to_callback"),
        ("callback_duration_ms", "callback_duration"),
        ("message_size", "message_size"),
    ];
    let mut scraped = vec![];
    for (source, labels, metrics) in
        [("/listener:/imu", IMU, &METRICS[..]), ("cpp_listener", CPP, &METRICS[..2])]
    {
        for (metric, name) in metrics {
            let unit = if *metric == "message_size" { "bytes" } else { "seconds" };
            for figure in ["mean", "min", "max", "stddev"] {
                let samples = prometheus.samples(&format!("topic_statistics_{name}_{figure}_{unit}{labels}"));
                scraped.push((source, (*metric, figure), samples));
            }
        }
    }
    scraped
}

/// From the first window on that the reader has, each figure that was scraped is the figure of a window, to the last
/// bit. Averages tell which one that is: no two windows have the same, except for sizes, which are all equal.
fn assert_figures_are_those_of(reader: &Reader, scraped: &[Scraped]) {
    let mut since = f64::INFINITY;
    for (source, (metric, figure), samples) in scraped {
        let windows = reader.windows(source, metric);
        let figures = windows.iter().map(|window| match *figure {
            "mean" => window.average(),
            "min" => window.minimum(),
            "max" => window.maximum(),
            _ => window.standard_deviation(),
        });
        let factor = if *metric == "message_size" { 1.0 } else { 1e-3 };
        let figures: Vec<f64> = figures.map(|figure| figure * factor).collect();
        if *figure == "mean" {
            let first = samples.iter().find(|(_, value)| figures.contains(value));
            since = first.map_or(f64::INFINITY, |(time, _)| *time);
        }
        let samples: Vec<_> = samples.iter().filter(|(time, _)| *time >= since).collect();
        assert!(samples.len() >= 4, "{metric} {figure} of {source}: {samples:?}");
        for (_, value) in samples {
            assert!(figures.contains(value), "{metric} {figure} of {source}: {value} is not in {figures:?}");
        }
    }
}

/// Between two scrapes, a count grows by the samples of the windows between them. The window of a scrape is the one
/// with its average.
fn assert_counts_grow_with_the_windows_of(reader: &Reader, prometheus: &Prometheus) {
    let windows = reader.windows("/listener:/imu", "message_age");
    let means = prometheus.samples(&format!("topic_statistics_message_age_mean_seconds{IMU}"));
    let counts = prometheus.samples(&format!("topic_statistics_message_age_seconds_count{IMU}"));
    let sums = prometheus.samples(&format!("topic_statistics_message_age_seconds_sum{IMU}"));
    let mut before = vec![];
    for (time, mean) in means {
        let Some(index) = windows.iter().position(|window| window.average() * 1e-3 == mean) else { continue };
        let at = |samples: &Samples| samples.iter().find(|(scraped, _)| *scraped == time).unwrap().1;
        let read: f64 = windows[..=index].iter().map(test_support::Metric::count).sum();
        let sum: f64 = windows[..=index].iter().map(|window| window.average() * 1e-3 * window.count()).sum();
        before.push((at(&counts) - read, at(&sums) - sum));
    }
    assert!(before.len() >= 4, "{before:?}");
    for (count, sum) in &before {
        assert_eq!(*count, before[0].0, "{before:?}");
        assert!((sum - before[0].1).abs() < 1e-9, "{before:?}");
    }
}

/// A quantile of Prometheus equals the quantile of the merged distributions, up to the width of a bucket and the shift
/// by the change of unit.
fn assert_quantiles_are_ours(prometheus: &Prometheus, robot: &Robot) {
    let mut merged = Distribution::default();
    for window in 0..4 {
        let mut samples = Distribution::default();
        for sample in 1..=500_u32 {
            let sample = f64::from(sample + window);
            assert!(samples.accept(0.2 * sample * sample / 500.0));
            if window == 3 && sample < 20.0 {
                assert!(samples.accept(-0.5 * sample) && samples.accept(0.0));
            }
        }
        robot.publish_distribution("/robot:/scan", "message_age", 100 + window as i32, &samples);
        assert!(merged.merge(&samples));
    }
    let series = r#"topic_statistics_message_age_distribution_seconds{node="/robot",topic="/scan"}"#;
    let count = merged.count() as f64;
    wait_for("distributions", || prometheus.value(&format!("histogram_count({series})")) == Some(count));
    let sum = prometheus.number(&format!("histogram_sum({series})"));
    assert!((sum - merged.sum() * 1e-3).abs() < 1e-9 * sum, "{sum}, not {} ms", merged.sum());
    let error = (1.0 + merged.relative_error()).powf(1.5);
    for quantile in [0.005, 0.5, 0.9, 0.99] {
        let (ours, theirs) = (
            merged.quantile(quantile) * 1e-3,
            prometheus.number(&format!("histogram_quantile({quantile}, {series})")),
        );
        let ratio = theirs / ours;
        assert!(ratio < error && ratio > 1.0 / error, "p{quantile}: {theirs}, not {ours} up to {error}");
    }
}

/// Every expression of the dashboards returns numbers, at the latest after another scrape.
fn assert_dashboards_have_data(prometheus: &Prometheus, robot: &Robot) {
    let instance = prometheus.query("up")[0]["metric"]["instance"].as_str().unwrap().to_owned();
    let mut windows = 0;
    for query in dashboard_queries(&instance) {
        wait_for(&query, || {
            windows += 1;
            robot.publish_health("/listener:/imu", 0, "rate>=1", windows);
            prometheus.has_number(&query)
        });
    }
}

/// A panel of a dashboard: its title, its text without data, and its expressions.
struct Panel {
    title: String,
    no_value: String,
    queries: Vec<String>,
}

/// Returns the panels with expressions as Grafana makes them with its variables: one robot, and all of the others.
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

/// Returns the expressions of all panels.
pub fn dashboard_queries(instance: &str) -> Vec<String> {
    panels(instance).into_iter().flat_map(|panel| panel.queries).collect()
}

/// With nodes as the README starts them.
#[test]
fn a_panel_without_data_says_what_it_needs() {
    let Some(program) = find("prometheus", "the dashboards with default nodes") else { return };
    let domain = domain();
    let exporter = Exporter::start(&[], domain);
    let prometheus = Prometheus::start(&program, exporter.address, &[]);
    let _talker = Process::start(test_support::program("talker"), &[], domain);
    let _listener = Process::start(test_support::program("listener"), &[], domain);
    let has_data = |panel: &Panel| panel.queries.iter().any(|query| prometheus.has_number(query));
    let instance = exporter.address.to_string();
    let panels = panels(&instance);
    let panel = |title: &str| panels.iter().find(|panel| panel.title == title).unwrap();
    for title in ["Rate", "Period", "Age", "Time since the last window", "Exporter"] {
        wait_for(title, || has_data(panel(&format!("robot.json: {title}"))));
    }
    for title in ["Robots", "Subscriptions", "Messages per second", "Oldest messages: average age"] {
        wait_for(title, || has_data(panel(&format!("fleet.json: {title}"))));
    }
    for panel in panels.iter().filter(|panel| !has_data(panel)) {
        let text = &panel.no_value;
        assert!(
            ["Needs ", "None: "].iter().any(|start| text.starts_with(start)),
            "{}: {text:?}",
            panel.title
        );
    }
}

fn assert_counters_survive_restarts(
    prometheus: &Prometheus,
    exporter: Exporter,
    listener_before: Process,
    address: &str,
    domain: u32,
) {
    let received = format!("topic_statistics_messages_received_total{IMU}");
    let last = || prometheus.samples(&received).last().map_or(0.0, |(_, value)| *value);
    // The node.
    listener_before.stop();
    let stopped = last();
    let _listener = listener(domain);
    wait_for("growth after the restart of the node", || last() > stopped + 100.0);
    assert_eq!(prometheus.number(&format!("resets({received}[10m])")), 0.0);
    // The exporter.
    let stopped = last();
    exporter.process.stop();
    let _exporter = Exporter::start(&["--listen", address], domain);
    wait_for("a restart in Prometheus", || {
        prometheus.value(&format!("resets({received}[10m])")) == Some(1.0)
    });
    let restarted = Instant::now();
    wait_for("growth after the restart of the exporter", || (100.0..stopped).contains(&last()));
    assert!(restarted.elapsed() < Duration::from_secs(30));
    let samples = prometheus.samples(&received);
    let increase: f64 = samples
        .windows(2)
        .map(|pair| if pair[1].1 < pair[0].1 { pair[1].1 } else { pair[1].1 - pair[0].1 })
        .sum();
    let seconds = samples[samples.len() - 1].0 - samples[0].0;
    let rate = prometheus.number(&format!("rate({received}[{}s])", seconds.ceil() as u64 + 1));
    let expected = increase / seconds;
    assert!((rate / expected - 1.0).abs() < 0.2, "{rate}, not {expected} Hz: {samples:?}");
    // 50 Hz, except in the two intervals without a count.
    assert!((15.0..55.0).contains(&rate), "{rate} Hz: {samples:?}");
    let series =
        "count({node=\"/listener\",topic=\"/imu\",__name__=\"topic_statistics_messages_received_total\"})";
    assert_eq!(prometheus.number(series), 1.0, "a restart is no new time series");
}

/// Counters that appear with a value would have no increase.
#[test]
fn the_first_losses_are_an_increase_and_raise_an_alert() {
    let Some(program) = find("prometheus", "the first losses in Prometheus") else { return };
    let domain = domain();
    let exporter = Exporter::start(&[], domain);
    let robot = Robot::start();
    let prometheus = Prometheus::start(&program, exporter.address, &[]);
    wait_for("a scrape", || prometheus.value("up") == Some(1.0));
    robot.publish_losses("/a", "/by_event", 500);
    robot.publish("/a:/by_gap", "publication_seq_gap", 100, [0.7, 7.0, 0.0, 10.0, 0.1]);
    for (topic, name, lost) in
        [("/by_event", "messages_reported_lost", 500.0), ("/by_gap", "messages_lost", 7.0)]
    {
        let increase = format!("increase(topic_statistics_{name}_total{{topic=\"{topic}\"}}[1m])");
        wait_for(&increase, || prometheus.value(&increase).is_some_and(|increase| increase >= lost));
        let alert =
            format!("ALERTS{{alertname=~\".*MessagesLost\",topic=\"{topic}\",alertstate=\"firing\"}}");
        wait_for(&alert, || prometheus.value(&alert) == Some(1.0));
    }
}

#[test]
fn promtool_finds_nothing_wrong() {
    let Some(promtool) = find("promtool", "the exporter with promtool") else { return };
    let domain = domain();
    let exporter = Exporter::start(&[], domain);
    let robot = Robot::start();
    for metric in rclrs_topic_statistics::Metric::ALL {
        robot.publish("/robot:/imu", metric.name(), 100, [2.0, 4.0, 1.0, 50.0, 0.5]);
        robot.publish("/robot:/imu", metric.name(), 101, [-2.0, 4.0, -3.0, 50.0, 0.5]);
    }
    robot.publish("/robot:/imu", "jitter", 101, [2.0, 4.0, 1.0, 50.0, 0.5]);
    publish_what_others_do_not(&robot);
    exporter.scrape_until("all", |series| {
        series.with("other_mean").count() > 0
            && series.with("diagnostic_level").count() > 0
            && series.with("reported_lost").count() > 0
    });
    let mut check = Command::new(promtool);
    let mut child =
        check.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let body = get(exporter.address, "/metrics").body;
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &body).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
