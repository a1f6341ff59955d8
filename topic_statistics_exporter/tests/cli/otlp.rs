// SPDX-License-Identifier: Apache-2.0

//! Checks the exporter's requests to a simulated OpenTelemetry collector. The collector decodes the requests with
//! OpenTelemetry's Python package.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rclrs_topic_statistics::Distribution;
use serde_json::{json, Value};
use test_support::{skip, wait_for, Process, LIMIT};

use crate::{
    common::{ages, folder, window, FIGURES},
    exporter::Exporter,
};

/// Installs the PyPI packages in `xtask/requirements/NAME.txt`, and returns their directory. Returns `None` if PyPI
/// cannot be reached.
pub fn python_packages(name: &str) -> Option<PathBuf> {
    let requirements = folder(&format!("xtask/requirements/{name}.txt"));
    let wanted = fs::read(&requirements).unwrap();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("python_{name}"));
    let installed = directory.join("installed.txt");
    if fs::read(&installed).is_ok_and(|installed| installed == wanted) {
        return Some(directory);
    }
    // Another test may install the same packages at the same time, so each test first installs into its own directory.
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

/// Creates a server certificate and its key. If openssl is not installed, logs that the test `what` is skipped.
pub fn certificate(directory: &Path, name: &str, what: &str) -> Option<(PathBuf, PathBuf)> {
    let [certificate, key] = ["pem", "key"].map(|end| directory.join(format!("{name}.{end}")));
    let options = "req -x509 -newkey rsa:2048 -nodes -days 2 -addext subjectAltName=IP:127.0.0.1 -addext \
                   basicConstraints=critical,CA:FALSE -subj";
    let mut openssl = Command::new("openssl");
    openssl.args(options.split_whitespace()).arg(format!("/CN={name}"));
    openssl.arg("-out").arg(&certificate).arg("-keyout").arg(&key);
    if !openssl.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        skip(what, "there is no openssl on this machine");
        return None;
    }
    Some((certificate, key))
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the attributes as text: `node=/listener,topic=/imu`.
fn attributes(of: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let pairs = array(&of["attributes"]).iter();
    let pairs = pairs.map(|pair| text(&pair["key"]) + "=" + &text(&pair["value"]["string_value"]));
    pairs.collect::<Vec<_>>().join(",")
}

/// Returns, from a request, the last data point of a metric for the source `/listener:/imu`.
fn point<'a>(request: &'a Value, name: &str) -> Option<&'a Value> {
    let metrics = array(&request["request"]["resource_metrics"][0]["scope_metrics"][0]["metrics"]);
    let metric = metrics.iter().find(|metric| metric["name"] == format!("topic_statistics.{name}"))?;
    let kinds = ["gauge", "sum", "summary", "exponential_histogram"].iter();
    let mut points = kinds.flat_map(|kind| array(&metric[*kind]["data_points"]));
    points.rfind(|point| attributes(point) == "node=/listener,topic=/imu,kind=subscription")
}

#[test]
fn only_a_trusted_collector_gets_all_figures() {
    const WHAT: &str = "OTLP with TLS";
    let Some(packages) = python_packages("opentelemetry") else {
        return skip(WHAT, "opentelemetry-proto cannot be installed from PyPI");
    };
    let directory = tempfile::tempdir().unwrap();
    let Some((certificate, key)) = certificate(directory.path(), "collector", WHAT) else { return };
    let mut command = Command::new("python3");
    command.arg(folder("topic_statistics_exporter/tests/cli/otlp_collector.py")).args(["503", "401", "400"]);
    command.envs([("PYTHONPATH", &packages), ("CERTIFICATE", &certificate), ("KEY", &key)]);
    let (collector, lines) = Process::spawn_printing(command.stdin(Stdio::null()));
    let first: Value = serde_json::from_str(&lines.recv_timeout(LIMIT).unwrap()).unwrap();
    let endpoint = format!("https://127.0.0.1:{}", first["port"]);
    let start = |more: &[&str]| {
        let options = "--otlp-interval 0.2 --otlp-timeout 2 --otlp-retry-initial 0.05 --otlp-retry-max 0.2 \
                       --otlp-resource site=north --otlp-headers api-key=open%20sesame --otlp-endpoint";
        Exporter::start(&[&options.split_whitespace().collect::<Vec<_>>(), &[&*endpoint][..], more].concat())
    };
    let failed =
        |reason: &str, count| (format!("exporter_push_attempts_failed_total{{reason=\"{reason}\"}}"), count);

    let distrustful = start(&[]);
    let (unreachable, _) = failed("unreachable", 2.0);
    distrustful.scrape_until("failed attempts", |series| series.get(&unreachable) >= Some(2.0));
    assert!(lines.try_recv().is_err(), "the collector received a request");
    distrustful.stop();

    let exporter = start(&["--otlp-certificate", certificate.to_str().unwrap()]);
    let mut samples = Distribution::default();
    assert!(samples.accept(1.5) && samples.accept(6.0) && samples.accept(0.0));
    for stop in [100, 101] {
        exporter.window(&window("/listener:/imu", "message_age", stop, FIGURES));
        exporter.ages(&ages("/listener:/imu", stop, &samples));
    }
    let lost = |count| (r#"exporter_push_requests_lost_total{reason="refused"}"#.to_owned(), count);
    for (name, count) in [failed("busy", 1.0), failed("denied", 1.0), lost(1.0)] {
        exporter.scrape_until(&name, |series| series.get(&name) == Some(count));
    }
    exporter.wait_for_line("401 Unauthorized): check");
    // When the exporter stops, it sends a last report.
    exporter.window(&window("/listener:/imu", "message_age", 102, FIGURES));
    assert_eq!(exporter.stop(), 0);
    let mut requests: Vec<Value> = vec![];
    wait_for("the last report", || {
        requests.extend(lines.try_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap()));
        let last = requests.last().and_then(|request| point(request, "message_age"));
        last.is_some_and(|summary| summary["count"] == "150")
    });
    collector.stop();

    // After the answers 503 and 401, the exporter sends the same request again. After 400, the request is lost.
    let [busy, denied, refused, next] = [0, 1, 2, 3].map(|index| &requests[index]);
    assert_eq!([&busy["status"], &denied["status"], &refused["status"]], [503, 401, 400]);
    assert!(busy["request"] == denied["request"] && denied["request"] == refused["request"]);
    assert_ne!(refused["request"], next["request"]);
    assert_eq!(busy["headers"]["api-key"], "open sesame");
    let resource = &busy["request"]["resource_metrics"][0];
    let expected = format!(
        "service.name=topic_statistics_exporter,service.version={},service.instance.id=spot-1,host.name=spot-1,\
         site=north",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(attributes(&resource["resource"]), expected);
    assert_eq!(resource["scope_metrics"][0]["scope"]["name"], "topic_statistics_exporter");
    let last = |name: &str| point(requests.last().unwrap(), name).unwrap();
    assert_eq!(last("message_age_mean")["as_double"], 0.002);
    assert!((last("message_age")["sum"].as_f64().unwrap() - 0.3).abs() < 1e-12);
    let histogram = last("message_age_distribution");
    let counts = array(&histogram["positive"]["bucket_counts"]).iter().filter(|count| *count != "0");
    assert_eq!([&histogram["count"], &histogram["zero_count"]], [&json!("6"), &json!("2")]);
    assert_eq!((counts.count(), &histogram["sum"]), (2, &json!(0.015)));
}
