// SPDX-License-Identifier: Apache-2.0

//! The requests at an OpenTelemetry collector that decodes with OpenTelemetry's own package, and fails in every way.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{mpsc::Receiver, Mutex, PoisonError},
    time::Instant,
};

use rclrs_topic_statistics::Distribution;
use serde_json::Value;
use test_support::{domain, program, wait_for, Process, Reader, LIMIT};

use crate::{
    process::Exporter,
    prometheus::{dashboard_queries, find, folder, free_port, publish_what_others_do_not, Prometheus},
    robot::Robot,
};

/// A collector that follows a script.
pub struct Collector {
    process: Process,
    lines: Receiver<String>,
    pub port: u64,
    /// All requests, each as the collector prints it.
    pub requests: Vec<Value>,
}

/// Installs packages from PyPI, those of `xtask/requirements/NAME.txt`, and returns where. None where PyPI cannot be
/// reached.
pub fn python_packages(name: &str) -> Option<PathBuf> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let requirements =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../xtask/requirements/{name}.txt"));
    let wanted = fs::read(&requirements).unwrap();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("python_{name}"));
    let installed = directory.join("installed.txt");
    if fs::read(&installed).is_ok_and(|installed| installed == wanted) {
        return Some(directory);
    }
    let _none_yet = fs::remove_dir_all(&directory);
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--retries",
        "1",
    ]);
    pip.args(["--timeout", "20", "--require-hashes", "--no-deps", "--only-binary", ":all:", "--target"]);
    pip.arg(&directory).arg("-r").arg(requirements).stdout(Stdio::null());
    if !pip.status().is_ok_and(|status| status.success()) {
        return None;
    }
    fs::write(installed, wanted).unwrap();
    Some(directory)
}

impl Collector {
    /// Starts it at a port, or at a free one. Logs that `what` is skipped if it cannot run.
    fn start(port: u64, script: &[&str], what: &str) -> Option<Self> {
        Self::start_with(port, script, what, &[])
    }

    /// Starts it with environment variables.
    fn start_with(port: u64, script: &[&str], what: &str, variables: &[(&str, &Path)]) -> Option<Self> {
        Self::start_program("otlp_collector.py", port, script, what, variables)
    }

    /// Starts the collector of a program beside this file.
    pub fn start_program(
        program: &str,
        port: u64,
        script: &[&str],
        what: &str,
        variables: &[(&str, &Path)],
    ) -> Option<Self> {
        let Some(packages) = python_packages("opentelemetry") else {
            test_support::skip(what, "opentelemetry-proto cannot be installed from PyPI");
            return None;
        };
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it").join(program);
        let mut command = Command::new("python3");
        command
            .arg(program)
            .arg(port.to_string())
            .args(script)
            .env("PYTHONPATH", packages)
            .stdin(Stdio::null());
        let variables = variables.iter().map(|(name, value)| (name, value));
        let (process, lines) = Process::spawn_printing(command.envs(variables));
        let first: Value = serde_json::from_str(&lines.recv_timeout(LIMIT).unwrap()).unwrap();
        Some(Self { process, lines, port: first["port"].as_u64().unwrap(), requests: vec![] })
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Waits until the requests so far have what is waited for.
    pub fn read_until(&mut self, what: &str, mut has: impl FnMut(&Self) -> bool) {
        wait_for(what, || {
            self.requests
                .extend(self.lines.try_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap()));
            has(self)
        });
    }

    /// Ends it, and returns all requests.
    pub fn stop(self) -> Vec<Value> {
        self.process.stop();
        let more = self.lines.iter().map(|line| serde_json::from_str(&line).unwrap());
        self.requests.into_iter().chain(more).collect()
    }

    /// The requests that it accepted, in the order of their arrival.
    pub fn accepted(&self) -> impl Iterator<Item = &Value> {
        self.requests.iter().filter(|request| request["reply"] == "200").map(|request| &request["request"])
    }

    /// The data points of a metric, with their attributes, in the order of their arrival.
    pub fn points<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (String, &'a Value)> {
        self.accepted().flat_map(move |request| points(request, name))
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn metrics(request: &Value) -> impl Iterator<Item = &Value> {
    let resources = array(&request["resource_metrics"]).iter();
    resources
        .flat_map(|resource| array(&resource["scope_metrics"]))
        .flat_map(|scope| array(&scope["metrics"]))
}

/// The data points of a metric in a request, with their attributes as text: `node=/listener,topic=/imu`.
fn points<'a>(request: &'a Value, name: &'a str) -> impl Iterator<Item = (String, &'a Value)> {
    let data = |metric: &'a Value| {
        let kinds = ["gauge", "sum", "summary", "exponential_histogram"].into_iter();
        kinds.flat_map(|kind| array(&metric[kind]["data_points"]))
    };
    let points = metrics(request).filter(move |metric| metric["name"] == name).flat_map(data);
    points.map(|point| (attributes(&point["attributes"]), point))
}

fn attributes(attributes: &Value) -> String {
    let attributes = array(attributes).iter();
    let pairs = attributes.map(|attribute| {
        format!(
            "{}={}",
            attribute["key"].as_str().unwrap(),
            attribute["value"]["string_value"].as_str().unwrap()
        )
    });
    pairs.collect::<Vec<_>>().join(",")
}

/// A number, which JSON has as text if it can be large, and not at all if it is 0.
fn number(value: &Value) -> i128 {
    match value {
        Value::Null => 0,
        Value::String(text) => text.parse().unwrap(),
        number => number.as_i64().unwrap().into(),
    }
}

fn float(value: &Value) -> f64 {
    if value.is_null() {
        0.0
    } else {
        value.as_f64().unwrap()
    }
}

pub fn times(point: &Value) -> (i128, i128) {
    (number(&point["start_time_unix_nano"]), number(&point["time_unix_nano"]))
}

/// The starts of the exporters that these requests are from, without repetitions.
pub fn starts<'a>(requests: impl Iterator<Item = &'a Value>) -> Vec<i128> {
    let counts =
        requests.flat_map(|request| points(request, "topic_statistics.exporter_push_requests_accepted"));
    let mut starts: Vec<_> = counts.map(|(_, point)| times(point).0).collect();
    starts.dedup();
    starts
}

/// Adds the buckets of a side, by their upper boundaries.
fn add_buckets(buckets: &mut BTreeMap<i32, u64>, side: &Value) {
    for (index, count) in (number(&side["offset"]) as i32..).zip(array(&side["bucket_counts"])) {
        *buckets.entry(index).or_default() += number(count) as u64;
    }
}

/// Options with which a test takes no longer than it must. A busy collector answers within the timeout.
pub const QUICKLY: [&str; 8] = [
    "--otlp-interval",
    "0.2",
    "--otlp-timeout",
    "4",
    "--otlp-retry-initial",
    "0.05",
    "--otlp-retry-max",
    "0.2",
];
pub const UNREACHABLE: &str = r#"exporter_push_attempts_failed_total{reason="unreachable"}"#;
const IMU: &str = "node=/listener,topic=/imu,kind=subscription";

#[test]
fn each_figure_arrives_once_and_in_order_whatever_the_collector_does() {
    let script = ["200", "503", "200", "hang", "close", "429:1", "502", "504", "200", "200"];
    let Some(mut collector) = Collector::start(0, &script, "OTLP with failures") else { return };
    let domain = domain();
    let endpoint = collector.endpoint();
    let arguments =
        ["--otlp-endpoint", &endpoint, "--otlp-temporality", "delta", "--otlp-resource", "site=north"];
    let mut exporter = Exporter::start(&[&arguments, &QUICKLY[..]].concat(), domain);
    let robot = Robot::start();
    let mut sent = Sent::default();
    while collector.requests.len() < script.len() + 2 {
        sent.publish(&robot);
        let before = collector.requests.len();
        collector.read_until("the next request", |collector| collector.requests.len() > before);
    }
    // Nobody listens for some attempts.
    let port = collector.port;
    let requests = collector.stop();
    sent.publish(&robot);
    let failed = |exporter: &Exporter| exporter.scrape().get(UNREACHABLE).unwrap();
    let before = failed(&exporter);
    wait_for("refused connections", || failed(&exporter) >= before + 3.0);
    sent.publish(&robot);
    let mut collector = Collector { requests, ..Collector::start(port, &[], "").unwrap() };
    // The end of the exporter has two seconds, for its last figures and not for all that a busy machine has left. The
    // count is that of the last report, which is one request more.
    exporter.scrape_until("requests that were sent", |series| {
        series.get("exporter_push_requests_waiting").is_some_and(|waiting| waiting <= 1.0)
    });
    sent.publish(&robot);
    exporter.scrape_until("all windows", |series| {
        series.get(r#"message_age_seconds_count{node="/listener",topic="/imu",kind="subscription"}"#)
            == Some(sent.count)
            && series.get(r#"exporter_messages_accepted_total{kind="distribution"}"#)
                == Some(sent.windows.into())
    });
    // The last figures are sent at the end of the exporter, whether or not there was a report meanwhile.
    exporter.process.signal("TERM");
    assert!(exporter.process.wait().success());
    let count = |collector: &Collector| -> f64 {
        let points = collector.points("topic_statistics.message_age_count");
        points.filter(|(attributes, _)| attributes == IMU).map(|(_, point)| float(&point["as_double"])).sum()
    };
    collector.read_until("the last request", |collector| count(collector) >= sent.count);

    assert_eq!(count(&collector), sent.count);
    let sums =
        collector.points("topic_statistics.message_age_sum").filter(|(attributes, _)| attributes == IMU);
    let sum: f64 = sums.map(|(_, point)| float(&point["as_double"])).sum();
    assert!((sum - sent.sum).abs() <= 1e-9 * sent.sum, "{sum} s of {} s", sent.sum);
    assert_each_interval_follows_the_one_before(&collector);
    assert_distribution(&collector, &sent.distribution);
    assert_retries(&collector);
    for request in collector.requests.iter().filter(|request| request["reply"] != "hang") {
        assert_eq!(
            (&request["path"], &request["headers"]["content-type"]),
            (&"/v1/metrics".into(), &"application/x-protobuf".into())
        );
    }
    let request = collector.accepted().next().unwrap();
    let resource = attributes(&request["resource_metrics"][0]["resource"]["attributes"]);
    let host = gethostname::gethostname().into_string().unwrap();
    assert_eq!(
        resource,
        format!(
            "service.name=topic_statistics_exporter,service.version={},service.instance.id={host},\
             host.name={host},site=north",
            env!("CARGO_PKG_VERSION")
        )
    );
    assert_eq!(
        request["resource_metrics"][0]["scope_metrics"][0]["scope"]["name"],
        "topic_statistics_exporter"
    );
}

/// The messages published of `/listener:/imu`.
#[derive(Default)]
struct Sent {
    windows: u32,
    count: f64,
    /// In seconds.
    sum: f64,
    distribution: Distribution,
}

impl Sent {
    /// Publishes the next window; no other is equal to it.
    fn publish(&mut self, robot: &Robot) {
        self.windows += 1;
        let (stop, window) = (100 + self.windows as i32, f64::from(self.windows));
        let (mean, count) = (2.0 + 0.1 * window, 50.0 + window);
        robot.publish("/listener:/imu", "message_age", stop, [mean, mean + 1.0, mean - 1.0, count, 0.5]);
        self.count += count;
        self.sum += mean * 1e-3 * count;
        let mut samples = Distribution::default();
        (1..=40).for_each(|sample| assert!(samples.accept(0.01 * f64::from(sample) * window)));
        assert!(samples.accept(0.0));
        robot.publish_distribution("/listener:/imu", "message_age", stop, &samples);
        assert!(self.distribution.merge(&samples));
    }
}

/// Deltas have all samples once if each begins at the end of the one before. Requests that are lost, sent twice, or not
/// in order would leave gaps and overlaps.
fn assert_each_interval_follows_the_one_before(collector: &Collector) {
    let mut ends = BTreeMap::<String, i128>::new();
    let mut intervals = 0;
    for request in collector.accepted() {
        for metric in metrics(request) {
            let name = metric["name"].as_str().unwrap();
            for kind in ["sum", "exponential_histogram"] {
                if metric[kind].is_null() {
                    continue;
                }
                assert_eq!(
                    metric[kind]["aggregation_temporality"], "AGGREGATION_TEMPORALITY_DELTA",
                    "{name}"
                );
                for point in array(&metric[kind]["data_points"]) {
                    let series = format!("{name} {}", attributes(&point["attributes"]));
                    let (start, time) = times(point);
                    assert!(start < time, "{series}: {point}");
                    if let Some(end) = ends.insert(series.clone(), time) {
                        assert_eq!(start, end, "{series}");
                        intervals += 1;
                    }
                }
            }
            assert!(metric["summary"].is_null(), "{name} has no deltas");
        }
    }
    assert!(intervals > 100, "{intervals}");
}

/// The merged deltas have the samples of the merged windows: their number, their sum, and their quantiles within the
/// width of a bucket and half a bucket for the change of the unit.
fn assert_distribution(collector: &Collector, sent: &Distribution) {
    let points = collector
        .points("topic_statistics.message_age_distribution")
        .filter(|(attributes, _)| attributes == IMU);
    let points: Vec<_> = points.map(|(_, point)| point).collect();
    assert_eq!(points.iter().map(|point| number(&point["count"])).sum::<i128>(), sent.count().into());
    assert_eq!(
        points.iter().map(|point| number(&point["zero_count"])).sum::<i128>(),
        sent.zero_count().into()
    );
    let sum: f64 = points.iter().map(|point| float(&point["sum"])).sum();
    assert!((sum - sent.sum() * 1e-3).abs() <= 1e-9 * sum, "{sum} s of {} ms", sent.sum());
    // Scales differ; the lowest holds all.
    let scale = points.iter().map(|point| number(&point["scale"])).min().unwrap();
    let mut buckets = BTreeMap::<i32, u64>::new();
    for point in &points {
        let joined = number(&point["scale"]) - scale;
        let mut of_point = BTreeMap::new();
        add_buckets(&mut of_point, &point["positive"]);
        of_point.into_iter().for_each(|(index, count)| *buckets.entry(index >> joined).or_default() += count);
    }
    let base = 2_f64.powf(2_f64.powi(-scale as i32));
    for quantile in [0.5, 0.9, 0.99] {
        let mut rank = (quantile * sent.count() as f64).ceil() - sent.zero_count() as f64;
        let bucket = buckets.iter().find(|(_, count)| {
            rank -= **count as f64;
            rank <= 0.0
        });
        let upper = base.powi(bucket.unwrap().0 + 1);
        let expected = sent.quantile(quantile) * 1e-3;
        let ratio = upper / expected;
        assert!(
            (base.powf(-1.5)..=base.powf(1.5)).contains(&ratio),
            "p{quantile}: {expected} s, and a bucket up to {upper} s"
        );
    }
}

/// After each failure the same request came again, and after a demand of 1 s not before that.
pub fn assert_retries(collector: &Collector) {
    for (before, after) in collector.requests.iter().zip(&collector.requests[1..]) {
        let at = |request: &Value| float(&request["at"]);
        if before["reply"].as_str().unwrap().ends_with(":1") {
            assert!(at(after) - at(before) >= 1.0, "{} s", at(after) - at(before));
        }
        if before["reply"] != "200" && !before["request"].is_null() && !after["request"].is_null() {
            assert_eq!(before["request"], after["request"]);
        }
    }
}

/// The values of a gauge of `/listener:/imu`, without the repeated values of reports that had no new window.
fn values(collector: &Collector, name: &str) -> Vec<f64> {
    let points = collector.points(name).filter(|(attributes, _)| attributes == IMU);
    let mut values: Vec<f64> = points.map(|(_, point)| float(&point["as_double"])).collect();
    values.dedup();
    values
}

#[test]
fn it_has_the_figures_that_a_reader_got() {
    let Some(mut collector) = Collector::start(0, &[], "OTLP of a listener") else { return };
    let domain = domain();
    let mut reader = Reader::start_with_depth(domain, 2000);
    // By the environment, as users of OpenTelemetry do it.
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=open%20sesame".to_owned()),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "none".to_owned()),
        ("OTEL_METRIC_EXPORT_INTERVAL", "300".to_owned()),
        ("OTEL_SERVICE_NAME", "spot".to_owned()),
    ];
    let mut exporter = Exporter::start_with(&[], domain, &variables);
    let _talker = Process::start(program("talker"), &["--ros-args", "-p", "period:=0.02"], domain);
    let arguments = ["--ros-args", "-p", "topic_statistics.distributions:=true"];
    let _listener = Process::start(program("listener"), &arguments, domain);
    const METRICS: [&str; 2] = ["message_age", "message_period"];
    const COUNT: &str = "topic_statistics.message_age";
    // Figures are compared that the reader has, too: it may be there later than the exporter.
    let common = |collector: &Collector, reader: &Reader, metric: &str| {
        let windows = reader.windows("/listener:/imu", metric);
        let values = values(collector, &format!("topic_statistics.{metric}_stddev")).into_iter();
        let is_read = |value: &f64| windows.iter().any(|window| window.standard_deviation() * 1e-3 == *value);
        values.filter(is_read).count()
    };
    let start = Instant::now();
    while METRICS.iter().any(|metric| common(&collector, &reader, metric) < 5) {
        assert!(start.elapsed() < LIMIT, "five windows that both have");
        let read = reader.metrics.len();
        reader.read_until("more", |metrics| metrics.len() > read);
        collector.read_until("requests so far", |_| true);
    }
    exporter.process.signal("TERM");
    assert!(exporter.process.wait().success());
    collector.read_until("the end", |_| true);
    for metric in METRICS {
        let name = format!("topic_statistics.{metric}_mean");
        let last = *values(&collector, &name).last().unwrap();
        reader.read_until(&format!("{metric} of {last} s"), |metrics| {
            test_support::of(metrics, "/listener:/imu", metric).any(|window| window.average() * 1e-3 == last)
        });
    }

    type Figure = fn(&test_support::Metric) -> f64;
    let figures: [(&str, Figure); 4] = [
        ("mean", test_support::Metric::average),
        ("min", test_support::Metric::minimum),
        ("max", test_support::Metric::maximum),
        ("stddev", test_support::Metric::standard_deviation),
    ];
    for metric in METRICS {
        let windows = reader.windows("/listener:/imu", metric);
        for (name, figure) in figures {
            let read: Vec<f64> = windows.iter().map(|window| figure(window) * 1e-3).collect();
            let name = format!("topic_statistics.{metric}_{name}");
            let values = values(&collector, &name);
            let missed = values.iter().take_while(|value| !read.contains(value)).count();
            let values = &values[missed..];
            assert!(values.len() >= 5, "{name}: {values:?}");
            assert!(values.iter().all(|value| read.contains(value)), "{name}: {values:?} of {read:?}");
        }
    }
    // Summaries are cumulative: from one report to the next they grow by the windows between them.
    let windows = reader.windows("/listener:/imu", "message_age");
    let totals = collector.points(COUNT).filter(|(attributes, _)| attributes == IMU);
    let totals: BTreeMap<_, _> = totals.map(|(_, total)| (times(total).1, total)).collect();
    let mut begun = vec![];
    for (_, mean) in
        collector.points("topic_statistics.message_age_mean").filter(|(attributes, _)| attributes == IMU)
    {
        let is_of = |window: &test_support::Metric| window.average() * 1e-3 == float(&mean["as_double"]);
        let Some(at) = windows.iter().position(is_of) else { continue };
        let read: f64 = windows[..=at].iter().map(test_support::Metric::count).sum();
        let total = totals[&times(mean).1];
        let (start, time) = times(total);
        assert!(start < time);
        begun.push((start, number(&total["count"]) as f64 - read));
    }
    assert!(begun.len() >= 5 && begun.iter().all(|first| *first == begun[0]), "{begun:?}");
    let unit = |name: &str| {
        let metric = collector.accepted().flat_map(metrics).find(|metric| metric["name"] == name).unwrap();
        metric["unit"].as_str().map(str::to_owned)
    };
    assert_eq!(unit("topic_statistics.message_age_mean").as_deref(), Some("s"));
    assert_eq!(unit("topic_statistics.receive_rate").as_deref(), Some("Hz"));
    assert_eq!(unit("topic_statistics.messages_received"), None);
    let request = &collector.requests[0];
    assert_eq!(request["headers"]["api-key"], "open sesame");
    assert!(request["headers"]["content-encoding"].is_null());
    let resource = attributes(&request["request"]["resource_metrics"][0]["resource"]["attributes"]);
    assert!(resource.ends_with("service.name=spot"), "{resource}");
}

#[test]
fn what_waits_on_disk_is_sent_by_the_next_exporter() {
    let Some(collector) = Collector::start(0, &[], "OTLP over a restart") else { return };
    // Nobody listens at its port any more.
    let port = collector.port;
    drop(collector);
    let domain = domain();
    let directory = tempfile::tempdir().unwrap();
    let buffer = directory.path().join("otlp");
    let (endpoint, path) = (format!("http://127.0.0.1:{port}"), buffer.to_str().unwrap());
    let arguments = ["--otlp-endpoint", &endpoint, "--otlp-buffer-directory", path];
    let arguments = [&arguments, &QUICKLY[..]].concat();
    let exporter = Exporter::start(&arguments, domain);
    let robot = Robot::start();
    robot.publish("/listener:/imu", "message_age", 100, [2.0, 4.0, 1.0, 50.0, 0.5]);
    let waiting =
        |series: &crate::process::Series| series.get("exporter_push_requests_waiting").unwrap_or(0.0);
    exporter.scrape_until("requests on disk", |series| waiting(series) >= 8.0);
    let mut second = test_support::command(program("exporter"), &arguments, domain);
    let mut second = Process::spawn(second.args(["--listen", "127.0.0.1:0"]).stderr(Stdio::piped()));
    let errors = test_support::lines(second.errors());
    assert_eq!(second.wait().code(), Some(1), "a directory is of one exporter");
    assert!(errors.iter().any(|line| line.contains("it is in use by another process")));
    exporter.process.signal("KILL");
    drop(exporter);
    let file = rusqlite::Connection::open(buffer.join("requests.sqlite")).unwrap();
    let query = |sql: &str| file.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let left = query("SELECT count(*) FROM requests") as usize;
    let fourth = query("SELECT sequence FROM requests ORDER BY sequence LIMIT 1 OFFSET 3");
    let damage =
        "UPDATE requests SET body = substr(body, 1, 100) || x'00' || substr(body, 102) WHERE sequence = ?1";
    file.execute(damage, [fourth]).unwrap();
    drop(file);

    let mut collector = Collector::start(port, &[], "").unwrap();
    let exporter = Exporter::start(&arguments, domain);
    let lost = r#"exporter_push_requests_lost_total{reason="damaged"}"#;
    exporter.scrape_until("the damaged request", |series| series.get(lost) == Some(1.0));
    let more = left + 3;
    collector.read_until("what waited, and more", |collector| collector.requests.len() >= more);
    let reports: Vec<_> =
        collector.points("topic_statistics.exporter_sources").map(|(_, point)| times(point).1).collect();
    assert!(reports.is_sorted_by(|before, after| before < after), "{reports:?}");
    let starts = collector.points("topic_statistics.exporter_push_requests_accepted");
    let mut starts: Vec<_> = starts.map(|(_, point)| times(point).0).collect();
    let first = starts.iter().filter(|start| **start == starts[0]).count();
    assert_eq!(first, left - 1, "those of the first exporter");
    starts.dedup();
    assert_eq!(starts.len(), 2, "and then those of the second");
    let summaries: Vec<_> =
        collector.points("topic_statistics.message_age").map(|(_, point)| point).collect();
    assert!(!summaries.is_empty());
    for summary in summaries {
        assert_eq!((number(&summary["count"]), float(&summary["sum"])), (50, 0.1));
    }
    exporter.scrape_until("nothing that waits", |series| waiting(series) <= 1.0);
    exporter.wait_for_line("1 damaged");
}

/// A directory on a file system of its own, until this is dropped. None if this process may not mount.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(what: &str) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(directory.path()).stderr(Stdio::null());
        if !mount.status().is_ok_and(|status| status.success()) {
            test_support::skip(what, "this process may not mount a small file system");
            return None;
        }
        Some(Self(directory))
    }

    /// Leaves no room.
    fn fill(&self) {
        let mut file = fs::File::create(self.0.path().join("junk")).unwrap();
        while std::io::Write::write_all(&mut file, &[0; 1024]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _unmounted = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_stops_nothing() {
    const WHAT: &str = "OTLP on a full disk";
    let Some(disk) = SmallDisk::new(WHAT) else { return };
    let Some(mut collector) = Collector::start(0, &[], WHAT) else { return };
    let path = disk.0.path().join("otlp");
    let arguments =
        ["--otlp-endpoint", &collector.endpoint(), "--otlp-buffer-directory", path.to_str().unwrap()];
    let domain = domain();
    let exporter = Exporter::start(&[&arguments, &QUICKLY[..]].concat(), domain);
    collector.read_until("requests", |collector| collector.requests.len() >= 2);
    disk.fill();
    let number = collector.requests.len() + 10;
    collector.read_until("requests over memory", |collector| collector.requests.len() >= number);
    exporter.wait_for_line("cannot be written to the disk");
    fs::remove_file(disk.0.path().join("junk")).unwrap();
    exporter.wait_for_line("are written to the disk again");
    let lost = exporter.scrape();
    assert!(lost.with("exporter_push_requests_lost_total").all(|(_, lost)| lost == 0.0), "{lost:?}");
    drop(exporter);
    // It starts on a full disk, too.
    disk.fill();
    let exporter = Exporter::start(&[&arguments, &QUICKLY[..]].concat(), domain);
    let number = collector.requests.len() + 5;
    collector.read_until("requests of the next exporter", |collector| collector.requests.len() >= number);
    assert_eq!(exporter.scrape().get(r#"exporter_push_requests_lost_total{reason="damaged"}"#), Some(0.0));
    let reports: Vec<_> =
        collector.points("topic_statistics.exporter_sources").map(|(_, point)| times(point).1).collect();
    assert!(reports.is_sorted_by(|before, after| before < after), "in order, each once: {reports:?}");
}

/// Without free file descriptors nothing can be opened. What waits is not damaged.
#[test]
fn requests_survive_a_time_without_file_descriptors() {
    use rustix::process::{getrlimit, prlimit, Pid, Resource, Rlimit};
    let script: Vec<_> = std::iter::repeat_n("503", 60).collect();
    let Some(mut collector) = Collector::start(0, &script, "OTLP without file descriptors") else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let arguments = ["--otlp-endpoint", &collector.endpoint(), "--otlp-buffer-directory", path];
    let exporter = Exporter::start(&[&arguments, &QUICKLY[..]].concat(), domain());
    let waiting =
        |series: &crate::process::Series| series.get("exporter_push_requests_waiting").unwrap_or(0.0);
    exporter.scrape_until("requests that wait", |series| waiting(series) >= 10.0);
    let pid = Pid::from_raw(exporter.process.id().try_into().unwrap());
    let limit = |current| {
        let all = getrlimit(Resource::Nofile);
        prlimit(pid, Resource::Nofile, Rlimit { current: Some(current), ..all }).unwrap();
    };
    limit(3);
    let number = collector.requests.len() + 5;
    // The connection to the collector is open.
    collector.read_until("attempts", |collector| collector.requests.len() >= number);
    limit(1024);
    collector.read_until("all requests", |collector| collector.accepted().count() >= 20);
    let reports: Vec<_> =
        collector.points("topic_statistics.exporter_sources").map(|(_, point)| times(point).1).collect();
    assert!(reports.is_sorted_by(|before, after| before < after), "in order, each once: {reports:?}");
    let series = exporter.scrape();
    assert!(series.with("exporter_push_requests_lost_total").all(|(_, lost)| lost == 0.0), "{series:?}");
}

/// An expired token, or a proxy that does not know the path yet.
#[test]
fn a_collector_that_denies_for_a_while_gets_everything() {
    let script = ["200", "401", "403", "404", "401"];
    let Some(mut collector) = Collector::start(0, &script, "OTLP with an expired token") else { return };
    let endpoint = format!("{}/v1/metrics", collector.endpoint());
    let exporter = Exporter::start(&[&["--otlp-endpoint", &endpoint], &QUICKLY[..]].concat(), domain());
    collector.read_until("requests", |collector| collector.accepted().count() >= 8);
    assert_retries(&collector);
    assert!(collector.requests.iter().all(|request| request["path"] == "/v1/metrics"));
    // The count is that of the last report, and requests that waited are sent faster than reports are made.
    let denied = r#"exporter_push_attempts_failed_total{reason="denied"}"#;
    let series = exporter.scrape_until("four denied attempts", |series| series.get(denied) == Some(4.0));
    assert!(series.with("exporter_push_requests_lost_total").all(|(_, lost)| lost == 0.0), "{series:?}");
    exporter.wait_for_line("401 Unauthorized): check the endpoint");
}

/// The options of a server's certificate.
pub const SERVER: [&str; 4] =
    ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"];

/// Makes a certificate and its key. Logs that `what` is skipped without openssl.
pub fn certificate(directory: &Path, name: &str, options: &[&str], what: &str) -> Option<(PathBuf, PathBuf)> {
    let [certificate, key] = ["pem", "key"].map(|end| directory.join(format!("{name}.{end}")));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj"]);
    openssl.arg(format!("/CN={name}")).args(options).arg("-out").arg(&certificate).arg("-keyout").arg(&key);
    if !openssl.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        test_support::skip(what, "there is no openssl on this machine");
        return None;
    }
    Some((certificate, key))
}

#[test]
fn a_collector_without_a_certificate_that_is_trusted_gets_nothing() {
    const WHAT: &str = "OTLP over HTTPS";
    let directory = tempfile::tempdir().unwrap();
    let Some((certificate, key)) = certificate(directory.path(), "collector", &SERVER, WHAT) else { return };
    let files = [("CERTIFICATE", certificate.as_path()), ("KEY", key.as_path())];
    let Some(mut collector) = Collector::start_with(0, &[], WHAT, &files) else { return };
    let endpoint = format!("https://127.0.0.1:{}", collector.port);
    let arguments = [&["--otlp-endpoint", &endpoint], &QUICKLY[..]].concat();
    let domain = domain();
    let exporter = Exporter::start(&arguments, domain);
    exporter.scrape_until("failed attempts", |series| series.get(UNREACHABLE) >= Some(2.0));
    collector.read_until("nothing", |collector| collector.requests.is_empty());
    drop(exporter);
    let trusted = ["--otlp-certificate", certificate.to_str().unwrap()];
    let _exporter = Exporter::start(&[&arguments, &trusted[..]].concat(), domain);
    collector.read_until("requests", |collector| collector.accepted().count() >= 2);
}

#[test]
fn a_collector_that_demands_a_certificate_gets_the_exporters_own() {
    demands_a_certificate("otlp_collector.py", &[], "OTLP with a client certificate");
}

/// The collector of a program gets requests only from an exporter with its own certificate.
pub fn demands_a_certificate(program: &str, options: &[&str], what: &str) {
    let directory = tempfile::tempdir().unwrap();
    let make = |name, options| certificate(directory.path(), name, options, what);
    let Some((server, server_key)) = make("collector", &SERVER) else { return };
    let Some((client, client_key)) = make("robot", &[]) else { return };
    let files = [("CERTIFICATE", &*server), ("KEY", &server_key), ("CLIENT_CERTIFICATE", &client)];
    let Some(mut collector) = Collector::start_program(program, 0, &[], what, &files) else { return };
    let endpoint = format!("https://127.0.0.1:{}", collector.port);
    let arguments = ["--otlp-endpoint", &endpoint, "--otlp-certificate", server.to_str().unwrap()];
    let arguments = [&arguments, options, &QUICKLY[..]].concat();
    let domain = domain();
    let exporter = Exporter::start(&arguments, domain);
    exporter.scrape_until("failed attempts", |series| series.get(UNREACHABLE) >= Some(2.0));
    collector.read_until("nothing", |collector| collector.requests.is_empty());
    drop(exporter);
    let variables = [("CLIENT_CERTIFICATE", client), ("CLIENT_KEY", client_key)];
    let variables = variables
        .map(|(name, path)| (format!("OTEL_EXPORTER_OTLP_{name}"), path.to_str().unwrap().to_owned()));
    let variables: Vec<_> = variables.iter().map(|(name, path)| (&**name, path.clone())).collect();
    let _exporter = Exporter::start_with(&arguments, domain, &variables);
    collector.read_until("requests", |collector| collector.accepted().count() >= 2);
}

/// OpenTelemetry's specification: warn, and ignore.
#[test]
fn variables_that_cannot_be_used_are_logged_and_end_nothing() {
    let Some(mut collector) = Collector::start(0, &[], "OTLP with wrong variables") else { return };
    let variables = [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json".to_owned()),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s".to_owned()),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd".to_owned()),
        ("OTEL_RESOURCE_ATTRIBUTES", "robot".to_owned()),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()),
    ];
    let domain = domain();
    let exporter = Exporter::start_with(&["--otlp-interval", "0.2"], domain, &variables);
    collector.read_until("requests", |collector| collector.accepted().count() >= 2);
    for (name, _) in &variables[..4] {
        let warning = format!("{name} is ");
        assert!(
            exporter.log().iter().any(|line| line.contains(&warning) && line.contains("is ignored")),
            "{name}"
        );
    }
    drop(exporter);
    for (name, value) in [("OTEL_SDK_DISABLED", "true"), ("OTEL_METRICS_EXPORTER", "none")] {
        let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()), (name, value.to_owned())];
        let mut exporter = Exporter::start_with(&["--otlp-interval", "0.1"], domain, &variables);
        let series = exporter.scrape();
        assert_eq!(series.with("exporter_push_").count(), 0, "{name}");
        assert!(exporter.log().iter().any(|line| line.contains(&format!("Nothing is pushed: {name} is"))));
        exporter.process.signal("TERM");
        assert!(exporter.process.wait().success(), "{name}");
    }
    // One that pushes sends a last report when it ends.
    let requests = collector.stop();
    let starts = starts(requests.iter().map(|request| &request["request"]));
    assert_eq!(starts.len(), 1, "all requests are of the first exporter");
}

/// Returns a Prometheus that takes OTLP, and its option for that. Logs that `what` is skipped if there is none: it is
/// one from 2.47 on, but Debian builds it without.
fn prometheus_with_receiver(what: &str) -> Option<(PathBuf, &'static str)> {
    let program = find("prometheus", what)?;
    let help = Command::new(&program).arg("--help").output().unwrap().stdout;
    let help = String::from_utf8(help).unwrap();
    let flags = [
        ("web.enable-otlp-receiver", "--web.enable-otlp-receiver"),
        ("otlp-write-receiver", "--enable-feature=otlp-write-receiver"),
    ];
    let flag = flags.into_iter().find(|(option, _)| help.contains(option));
    if flag.is_none() {
        test_support::skip(what, "this Prometheus takes no OTLP");
    }
    Some((program, flag?.1))
}

const PUSHED: &str = "topic_statistics_exporter";
const SCRAPED: &str = "topic_statistics";

/// The figures of a job of Prometheus, by name and labels without those of the target.
fn figures(prometheus: &Prometheus, job: &str) -> BTreeMap<String, Value> {
    let results = prometheus.query(&format!("{{__name__=~\"topic_statistics_.*\",job=\"{job}\"}}"));
    let figures = results.into_iter().map(|mut result| {
        let labels = result["metric"].as_object_mut().unwrap();
        let target = ["job", "instance", "robot"].map(|label| labels.remove(label));
        assert!(target[0].is_some() && target[1].is_some(), "{labels:?}");
        let name = labels.remove("__name__").unwrap();
        let series = format!("{}{}", name.as_str().unwrap(), result["metric"]);
        let figure = if result["value"].is_null() { &result["histogram"] } else { &result["value"] };
        (series, figure[1].clone())
    });
    figures.collect()
}

/// A window of everything that there is.
fn publish_everything(robot: &Robot, stop: i32) {
    for metric in rclrs_topic_statistics::Metric::ALL {
        robot.publish("/robot:/imu", metric.name(), stop, [2.0, 4.0, 1.0, 50.0, 0.5]);
        robot.publish("/robot:/late", metric.name(), stop, [-2.0, 4.0, -3.0, 50.0, 0.5]);
    }
    robot.publish("/robot:/imu", "jitter", stop, [2.0, 4.0, 1.0, 50.0, 0.5]);
    robot.publish("cpp_listener", "message_age", stop, [2.5, 4.0, 1.0, 50.0, 0.5]);
    let mut samples = Distribution::default();
    (1..=500).for_each(|sample| assert!(samples.accept(0.01 * f64::from(sample + stop))));
    assert!(samples.accept(0.0));
    robot.publish_distribution("/robot:/imu", "message_age", stop, &samples);
    assert!(samples.accept(-1.0));
    robot.publish_distribution("/robot:/late", "message_age", stop, &samples);
    robot.publish_losses("/robot", "/imu", 5);
}

#[test]
fn prometheus_has_of_each_push_what_it_has_of_a_scrape() {
    let Some((program, receiver)) = prometheus_with_receiver("OTLP to Prometheus") else { return };
    let domain = domain();
    let address = free_port();
    let prometheus = Prometheus::start(&program, address, &[receiver]);
    let endpoint = format!("http://{}/api/v1/otlp", prometheus.address);
    let (address, resource) = (address.to_string(), "service.instance.id=r1,host.name=robot-1");
    let arguments = ["--listen", &address, "--otlp-endpoint", &endpoint, "--otlp-resource", resource];
    let exporter = Exporter::start(&[&arguments, &QUICKLY[..]].concat(), domain);
    let robot = Robot::start();
    publish_what_others_do_not(&robot);
    (100..103).for_each(|stop| publish_everything(&robot, stop));
    let windows = 5 + 3 * (2 * rclrs_topic_statistics::Metric::ALL.len() + 2);
    let kinds = [("window", windows), ("distribution", 6), ("losses", 4), ("diagnostic", 1)];
    let accepted = |kind: &str| format!("exporter_messages_accepted_total{{kind=\"{kind}\"}}");
    exporter.scrape_until("all messages", |series| {
        kinds.iter().all(|(kind, count)| series.get(&accepted(kind)) == Some(*count as f64))
    });
    for (job, (kind, count)) in [PUSHED, SCRAPED].iter().flat_map(|job| kinds.map(|kind| (job, kind))) {
        let series =
            format!("topic_statistics_exporter_messages_accepted_total{{job=\"{job}\",kind=\"{kind}\"}}");
        wait_for(&series, || prometheus.value(&series) == Some(count as f64));
    }

    let [pushed, scraped] = [PUSHED, SCRAPED].map(|job| figures(&prometheus, job));
    let names: [Vec<&String>; 2] = [&pushed, &scraped].map(|figures| figures.keys().collect());
    assert_eq!(names[0], names[1]);
    for (series, pushed) in &pushed {
        let scraped = &scraped[series];
        if series.starts_with("topic_statistics_last_window_timestamp") {
            let [pushed, scraped] =
                [pushed, scraped].map(|time| time.as_str().unwrap().parse::<f64>().unwrap());
            assert!((pushed - scraped).abs() < 0.01, "{series}: {pushed}, not {scraped}");
        // Requests go on.
        } else if !series.starts_with("topic_statistics_exporter_push_") {
            // Prometheus makes the zero bucket of OTLP that wide, whatever its width is. By OTLP's rules, a histogram
            // with negative samples has no sum; Prometheus takes that for 0.
            let pushed = pushed.to_string().replace(r#""-1e-128","1e-128""#, r#""-0","0""#);
            let mut scraped = scraped.clone();
            if series.contains("distribution") && series.contains("/late") {
                scraped["sum"] = "0".into();
            }
            assert_eq!(pushed, scraped.to_string(), "{series}");
        }
    }
    let robot_info = "target_info{job=\"topic_statistics_exporter\",instance=\"r1\",host_name=\"robot-1\"}";
    assert_eq!(prometheus.value(robot_info), Some(1.0));

    // Rates need figures that grow.
    let mut stop = 103;
    for query in dashboard_queries("r1") {
        let query = query.replace("job=~\".*\"", "job=\"topic_statistics_exporter\"");
        wait_for(&query, || {
            publish_everything(&robot, stop);
            stop += 1;
            prometheus.has_number(&query)
        });
    }
    // All names that the docs promise, and that alerts use.
    let docs = fs::read_to_string(folder("docs/fleet.md")).unwrap();
    let names = docs.split_once("\n## Names\n").unwrap().1.split_once("\n## ").unwrap().0;
    let alerts = fs::read_to_string(folder("grafana/alerts.yml")).unwrap();
    for (text, number) in [(names, 30), (&alerts, 8)] {
        let words = text.split(|letter: char| !letter.is_ascii_lowercase() && letter != '_');
        let names: BTreeSet<&str> = words.filter(|word| word.starts_with("topic_statistics_")).collect();
        assert!(names.len() >= number, "{names:?}");
        for name in names {
            assert!(pushed.keys().any(|series| series.starts_with(name)), "{name} is not pushed");
        }
    }
}

#[test]
fn options_that_cannot_be_used_end_it() {
    let domain = domain();
    for (arguments, text) in [
        (
            vec!["--otlp-endpoint", "collector:4318"],
            "The OTLP endpoint \"collector:4318/v1/metrics\" is no URL",
        ),
        (
            vec!["--otlp-endpoint", "http://x", "--otlp-buffer-directory", "/proc/none"],
            "The directory /proc/none",
        ),
        (
            vec!["--ros-args", "-p", "otlp_interval:=0"],
            "The parameter otlp_interval is \"0\": it has to be a number of seconds",
        ),
        (
            vec!["--ros-args", "-p", "otlp_headers:=secret"],
            "The parameter otlp_headers is not valid: it has to be name=value",
        ),
    ] {
        let mut command = test_support::command(program("exporter"), &["--listen", "127.0.0.1:0"], domain);
        let mut process = Process::spawn(command.args(&arguments).stderr(Stdio::piped()));
        let errors = test_support::lines(process.errors());
        assert_eq!(process.wait().code(), Some(1), "{arguments:?}");
        let errors: Vec<String> = errors.iter().collect();
        assert!(errors.iter().any(|line| line.contains(text)), "{arguments:?}: {errors:?}");
    }
}
