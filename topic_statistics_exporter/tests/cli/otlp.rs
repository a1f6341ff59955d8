// SPDX-License-Identifier: Apache-2.0

//! The requests at an OpenTelemetry collector that decodes with OpenTelemetry's own package, and fails.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::Receiver,
};

use rclrs_topic_statistics::Distribution;
use serde_json::{json, Value};
use test_support::{skip, wait_for, Process, LIMIT};

use crate::{
    common::{ages, folder, window, FIGURES},
    exporter::Exporter,
};

/// A collector that follows a script.
struct Collector {
    process: Process,
    lines: Receiver<String>,
    endpoint: String,
    /// All requests, each as the collector prints it.
    requests: Vec<Value>,
}

/// Installs packages from PyPI, those of `xtask/requirements/NAME.txt`, and returns where. None where PyPI cannot be
/// reached.
pub fn python_packages(name: &str) -> Option<PathBuf> {
    let requirements = folder(&format!("xtask/requirements/{name}.txt"));
    let wanted = fs::read(&requirements).unwrap();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("python_{name}"));
    let installed = directory.join("installed.txt");
    if fs::read(&installed).is_ok_and(|installed| installed == wanted) {
        return Some(directory);
    }
    // Another test may install them at the same time.
    let own = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = "-m pip install --quiet --disable-pip-version-check --no-input --retries 1 --timeout 20 \
                   --require-hashes --no-deps --only-binary :all: --target";
    let mut pip = Command::new("python3");
    pip.args(options.split_whitespace()).arg(own.path()).arg("-r").arg(requirements).stdout(Stdio::null());
    if !pip.status().is_ok_and(|status| status.success()) {
        return None;
    }
    fs::write(own.path().join("installed.txt"), &wanted).unwrap();
    let _old = fs::remove_dir_all(&directory);
    let is_moved = fs::rename(own.keep(), &directory).is_ok();
    assert!(is_moved || fs::read(&installed).is_ok_and(|installed| installed == wanted));
    Some(directory)
}

impl Collector {
    /// Starts the collector of a protocol at a free port, with files of TLS in its environment. Logs that `what` is
    /// skipped if it cannot run.
    fn start(protocol: &str, script: &[&str], what: &str, files: &[(&str, &Path)]) -> Option<Self> {
        let Some(packages) = python_packages("opentelemetry") else {
            skip(what, "opentelemetry-proto cannot be installed from PyPI");
            return None;
        };
        let program = if protocol == "grpc" { "grpc_collector.py" } else { "otlp_collector.py" };
        let mut command = Command::new("python3");
        command.arg(folder("topic_statistics_exporter/tests/cli").join(program)).arg("0").args(script);
        command.env("PYTHONPATH", packages).envs(files.iter().copied()).stdin(Stdio::null());
        let (process, lines) = Process::spawn_printing(&mut command);
        let first: Value = serde_json::from_str(&lines.recv_timeout(LIMIT).unwrap()).unwrap();
        let scheme = if files.is_empty() { "http" } else { "https" };
        Some(Self {
            process,
            lines,
            endpoint: format!("{scheme}://127.0.0.1:{}", first["port"]),
            requests: vec![],
        })
    }

    /// Starts an exporter that pushes to it, and takes no longer than a test must.
    fn exporter(&self, protocol: &str, arguments: &[&str]) -> Exporter {
        let quickly = "--otlp-interval 0.2 --otlp-timeout 2 --otlp-retry-initial 0.05 --otlp-retry-max 0.2";
        let here = ["--otlp-endpoint", &self.endpoint, "--otlp-protocol", protocol];
        let quickly: Vec<_> = quickly.split(' ').collect();
        Exporter::start(&[&here, &quickly[..], arguments].concat())
    }

    /// Waits until the requests so far have what is waited for.
    fn read_until(&mut self, what: &str, mut has: impl FnMut(&Self) -> bool) {
        wait_for(what, || {
            let lines = self.lines.try_iter();
            self.requests.extend(lines.map(|line| serde_json::from_str::<Value>(&line).unwrap()));
            has(self)
        });
    }

    /// The requests that it accepted, in the order of their arrival.
    fn accepted(&self) -> impl Iterator<Item = &Value> {
        self.requests.iter().filter(|request| request["reply"] == "200").map(|request| &request["request"])
    }

    /// The data points of `/listener:/imu`, or those without a source, in the order of their arrival.
    fn points(&self, name: &str) -> Vec<&Value> {
        let metrics = self
            .accepted()
            .flat_map(|request| array(&request["resource_metrics"][0]["scope_metrics"][0]["metrics"]).iter());
        let points = metrics.filter(|metric| metric["name"] == format!("topic_statistics.{name}")).flat_map(
            |metric| {
                let kinds = ["gauge", "sum", "summary", "exponential_histogram"].iter();
                kinds.flat_map(|kind| array(&metric[*kind]["data_points"]))
            },
        );
        let is_of = |point: &&Value| {
            let attributes = attributes(point);
            attributes.is_empty() || attributes == "node=/listener,topic=/imu,kind=subscription"
        };
        points.filter(is_of).collect()
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Attributes as text: `node=/listener,topic=/imu`.
fn attributes(of: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let pairs = array(&of["attributes"]).iter();
    let pairs = pairs.map(|pair| text(&pair["key"]) + "=" + &text(&pair["value"]["string_value"]));
    pairs.collect::<Vec<_>>().join(",")
}

#[test]
fn each_report_arrives_once_and_in_order_whatever_fails() {
    const WHAT: &str = "OTLP with failures";
    let protocols = [
        (
            "http/protobuf",
            &["200", "503", "200", "hang", "401", "429:1", "400"][..],
            "401 Unauthorized): check",
        ),
        (
            "grpc",
            &["200", "UNAVAILABLE", "200", "hang", "UNAUTHENTICATED", "RESOURCE_EXHAUSTED:1", "INTERNAL"],
            "gRPC status Unauthenticated: of the script): check",
        ),
    ];
    for (protocol, script, denied) in protocols {
        let Some(mut collector) = Collector::start(protocol, script, WHAT, &[]) else { return };
        let arguments = ["--otlp-resource", "site=north", "--otlp-headers", "api-key=open%20sesame"];
        let exporter = collector.exporter(protocol, &arguments);
        let mut samples = Distribution::default();
        assert!(samples.accept(1.5) && samples.accept(6.0) && samples.accept(0.0));
        for stop in [100, 101] {
            exporter.window(&window("/listener:/imu", "message_age", stop, FIGURES));
            exporter.ages(&ages("/listener:/imu", stop, &samples));
        }
        collector.read_until("requests", |collector| collector.requests.len() >= script.len() + 3);
        // What is refused is lost. What fails otherwise comes again, and after a demand of 1 s not before that.
        for pair in collector.requests.windows(2) {
            let [(reply, request, at), (_, next, then)] =
                [0, 1].map(|index| (&pair[index]["reply"], &pair[index]["request"], &pair[index]["at"]));
            if reply.as_str().unwrap().ends_with(":1") {
                assert!(then.as_f64().unwrap() - at.as_f64().unwrap() >= 1.0, "{at} {then}");
            }
            // A request that hangs is not read over HTTP.
            if !request.is_null() && !next.is_null() {
                assert_eq!(
                    request == next,
                    !["200", "400", "INTERNAL"].iter().any(|end| reply == end),
                    "{reply}"
                );
            }
        }
        let reports: Vec<u64> =
            collector.points("exporter_sources").iter().map(|point| time(point)).collect();
        assert!(reports.is_sorted_by(|before, after| before < after), "{reports:?}");
        for (reason, count) in [("denied", 1.0), ("busy", 2.0), ("unreachable", 1.0)] {
            let name = format!("exporter_push_attempts_failed_total{{reason=\"{reason}\"}}");
            exporter.scrape_until(&name, |series| series.get(&name) == Some(count));
        }
        let refused = r#"exporter_push_requests_lost_total{reason="refused"}"#;
        exporter.scrape_until("a refused request", |series| series.get(refused) == Some(1.0));
        exporter.wait_for_line(denied);

        let request = &collector.requests[0];
        assert_eq!(request["headers"]["api-key"], "open sesame");
        let resource = &request["request"]["resource_metrics"][0];
        let version = env!("CARGO_PKG_VERSION");
        let expected = format!(
            "service.name=topic_statistics_exporter,service.version={version},service.instance.id=spot-1,\
             host.name=spot-1,site=north"
        );
        assert_eq!(attributes(&resource["resource"]), expected);
        assert_eq!(resource["scope_metrics"][0]["scope"]["name"], "topic_statistics_exporter");

        // The end sends what there is.
        exporter.window(&window("/listener:/imu", "message_age", 102, FIGURES));
        assert_eq!(exporter.stop(), 0);
        collector.read_until("the last report", |collector| {
            collector.points("message_age").last().is_some_and(|summary| summary["count"] == "150")
        });
        let last = |name: &str| *collector.points(name).last().unwrap();
        assert_eq!(last("message_age_mean")["as_double"], 0.002);
        assert!((last("message_age")["sum"].as_f64().unwrap() - 0.3).abs() < 1e-12);
        let histogram = last("message_age_distribution");
        let count =
            |buckets: &Value| array(&buckets["bucket_counts"]).iter().filter(|count| *count != "0").count();
        assert_eq!([&histogram["count"], &histogram["zero_count"]], [&json!("6"), &json!("2")]);
        assert_eq!((count(&histogram["positive"]), &histogram["sum"]), (2, &json!(0.015)));
        collector.process.stop();
    }
}

fn time(point: &Value) -> u64 {
    point["time_unix_nano"].as_str().unwrap().parse().unwrap()
}

/// Makes a certificate and its key. Logs that `what` is skipped without openssl.
pub fn certificate(directory: &Path, name: &str, is_server: bool, what: &str) -> Option<(PathBuf, PathBuf)> {
    let [certificate, key] = ["pem", "key"].map(|end| directory.join(format!("{name}.{end}")));
    let mut openssl = Command::new("openssl");
    openssl.args("req -x509 -newkey rsa:2048 -nodes -days 2 -subj".split(' ')).arg(format!("/CN={name}"));
    if is_server {
        openssl.args(
            "-addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE".split(' '),
        );
    }
    openssl.arg("-out").arg(&certificate).arg("-keyout").arg(&key);
    if !openssl.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        skip(what, "there is no openssl on this machine");
        return None;
    }
    Some((certificate, key))
}

#[test]
fn only_a_trusted_collector_gets_figures_of_a_known_robot() {
    const WHAT: &str = "OTLP with TLS";
    let directory = tempfile::tempdir().unwrap();
    let make = |name, is_server| certificate(directory.path(), name, is_server, WHAT);
    let (Some((server, server_key)), Some((client, client_key))) =
        (make("collector", true), make("robot", false))
    else {
        return;
    };
    let [trusted, own, own_key] = [&server, &client, &client_key].map(|path| path.to_str().unwrap());
    let trust = ["--otlp-certificate", trusted];
    let as_client = [&trust[..], &["--otlp-client-certificate", own, "--otlp-client-key", own_key]].concat();
    let (plain, demanding) = (
        [("CERTIFICATE", &*server), ("KEY", &*server_key)],
        [("CERTIFICATE", &*server), ("KEY", &*server_key), ("CLIENT_CERTIFICATE", &*client)],
    );
    for (protocol, files, wrong, right) in [
        ("http/protobuf", &plain[..], &[][..], &trust[..]),
        ("grpc", &plain, &[], &trust),
        ("http/protobuf", &demanding, &trust, &as_client),
        ("grpc", &demanding, &trust, &as_client),
    ] {
        let Some(mut collector) = Collector::start(protocol, &[], WHAT, files) else { return };
        let exporter = collector.exporter(protocol, wrong);
        let failed = r#"exporter_push_attempts_failed_total{reason="unreachable"}"#;
        exporter.scrape_until("failed attempts", |series| series.get(failed) >= Some(2.0));
        collector.read_until("nothing", |collector| collector.requests.is_empty());
        exporter.stop();
        let exporter = collector.exporter(protocol, right);
        collector.read_until("requests", |collector| collector.accepted().count() >= 2);
        assert_eq!(exporter.stop(), 0);
    }
}
