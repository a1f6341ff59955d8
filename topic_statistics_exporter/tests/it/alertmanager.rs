// SPDX-License-Identifier: Apache-2.0

//! A real Alertmanager with `grafana/alertmanager.yml`: who is told, and what is left out.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    process::{Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
};

use serde_json::{json, Value};
use test_support::{wait_for, Process, LIMIT};

use crate::{
    process::{get, request, try_request},
    prometheus::{find, folder, free_port},
};

const INSTANCES: [&str; 2] = ["r1", "r2"];

/// An alert, and the alert that explains it, if one does.
struct Alert {
    labels: Value,
    explained_by: Option<&'static str>,
}

fn alert(labels: &[(&str, &str)], explained_by: Option<&'static str>) -> Alert {
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
    let mut labels: serde_json::Map<String, Value> = labels.collect();
    let name = format!("TopicStatistics{}", labels["alertname"].as_str().unwrap());
    labels.insert("alertname".to_owned(), json!(name));
    labels.insert("job".to_owned(), json!("topic_statistics"));
    Alert { labels: Value::Object(labels), explained_by }
}

/// An alert of a topic of a robot, with the labels that Prometheus gives it.
fn of_topic(name: &str, instance: &str, topic: &str, explained_by: Option<&'static str>) -> Alert {
    let labels = [
        ("alertname", name),
        ("severity", "ticket"),
        ("instance", instance),
        ("node", "/n"),
        ("topic", topic),
    ];
    alert(&labels, explained_by)
}

fn of_robot(name: &str, instance: &str, site: &str, explained_by: Option<&'static str>) -> Alert {
    let severity = if name == "NodesEnded" { "ticket" } else { "page" };
    let mut labels = vec![("alertname", name), ("severity", severity), ("instance", instance)];
    if !site.is_empty() {
        labels.push(("site", site));
    }
    alert(&labels, explained_by)
}

fn alerts() -> Vec<Alert> {
    let [r1, r2] = INSTANCES;
    vec![
        // A page of a topic explains its tickets, and no others.
        alert(
            &[
                ("alertname", "Unhealthy"),
                ("severity", "page"),
                ("instance", r1),
                ("node", "/n"),
                ("topic", "/imu"),
            ],
            None,
        ),
        of_topic("MessagesLost", r1, "/imu", Some("Unhealthy")),
        of_topic("RateOff", r1, "/imu", Some("Unhealthy")),
        of_topic("ErrorBudgetBurn", r1, "/imu", Some("Unhealthy")),
        of_topic("MessagesLost", r1, "/scan", None),
        of_topic("MessagesLost", r2, "/imu", None),
        of_topic("CallWaits", r1, "/imu", None),
        // Nothing is known of a robot whose exporter is away.
        of_robot("ExporterDown", "r3", "", None),
        of_topic("TopicStopped", "r3", "/imu", Some("ExporterDown")),
        of_robot("NodesEnded", "r3", "", Some("ExporterDown")),
        of_robot("ExporterSilent", "r4", "", None),
        of_topic("MessagesLost", "r4", "/imu", Some("ExporterSilent")),
        // A site explains its robots, and not those of another one.
        alert(&[("alertname", "SiteUnreachable"), ("severity", "page"), ("site", "north")], None),
        of_robot("ExporterDown", "r5", "north", Some("SiteUnreachable")),
        of_robot("ExporterDown", "r6", "south", None),
        // A robot of it that can still be scraped is not silenced.
        of_robot("Unhealthy", "r7", "north", None),
    ]
}

/// Takes notifications, and sends each one on.
fn receiver() -> (SocketAddr, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (notifications, received) = mpsc::channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let head = reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            let lengths =
                head.filter_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let Some(length) = lengths.last() else { continue };
            let mut body = vec![0; length];
            let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
            if reader.read_exact(&mut body).is_err() || stream.write_all(answer).is_err() {
                continue;
            }
            if notifications.send(serde_json::from_slice(&body).unwrap()).is_err() {
                return;
            }
        }
    });
    (address, received)
}

#[test]
fn what_another_alert_explains_is_not_told() {
    const WHAT: &str = "inhibition in Alertmanager";
    let Some(program) = find("prometheus-alertmanager", WHAT) else { return };
    let (webhook, notifications) = receiver();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("alertmanager.yml");
    let webhook = format!("webhook_configs: [{{url: 'http://{webhook}/', send_resolved: false}}]");
    let shipped = fs::read_to_string(folder("grafana/alertmanager.yml")).unwrap();
    let with_receivers = shipped
        .replace("{name: pager}", &format!("{{name: pager, {webhook}}}"))
        .replace("{name: tickets}", &format!("{{name: tickets, {webhook}}}"))
        // Long enough for all alerts to arrive before the first message.
        .replace("group_wait: 30s", "group_wait: 3s");
    assert_eq!(with_receivers.matches(&webhook).count(), 2);
    fs::write(&file, with_receivers).unwrap();
    let address = free_port();
    let mut command = Command::new(program);
    command
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.path={}", directory.path().join("data").display()))
        .arg(format!("--web.listen-address={address}"))
        .args(["--cluster.listen-address=", "--log.level=error"])
        .stderr(Stdio::piped());
    let mut alertmanager = Process::spawn(&mut command);
    let errors = test_support::lines(alertmanager.errors());
    wait_for("Alertmanager", || {
        alertmanager.status().is_some()
            || try_request(address, "GET /-/ready HTTP/1.0\r\n\r\n")
                .is_ok_and(|response| response.status == 200)
    });
    if alertmanager.status().is_some() {
        let errors: Vec<_> = errors.iter().collect();
        // Debian's reads them at a fixed place.
        assert!(errors.iter().any(|line| line.contains("default.tmpl")), "{errors:#?}");
        return test_support::skip(WHAT, "the templates of Alertmanager are not installed");
    }
    let alerts = alerts();
    let body = Value::Array(alerts.iter().map(|alert| json!({"labels": alert.labels})).collect()).to_string();
    let header = "POST /api/v2/alerts HTTP/1.0\r\nContent-Type: application/json";
    let posted = request(address, &format!("{header}\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    assert_eq!(posted.status, 200, "{}", posted.text());

    let find_alert = |list: &[Value], labels: &Value| -> Option<Value> {
        list.iter().find(|alert| alert["labels"] == *labels).cloned()
    };
    let mut all = vec![];
    wait_for("the state of each alert", || {
        all = serde_json::from_slice::<Value>(&get(address, "/api/v2/alerts").body)
            .unwrap()
            .as_array()
            .unwrap()
            .clone();
        alerts.iter().all(|alert| {
            let state = find_alert(&all, &alert.labels).map(|found| found["status"]["state"].clone());
            state == Some(json!(if alert.explained_by.is_some() { "suppressed" } else { "active" }))
        })
    });
    for alert in &alerts {
        let found = find_alert(&all, &alert.labels).unwrap();
        let sources = found["status"]["inhibitedBy"].as_array().unwrap();
        let names = sources.iter().map(|source| {
            let source = all.iter().find(|candidate| candidate["fingerprint"] == *source).unwrap();
            source["labels"]["alertname"].as_str().unwrap().strip_prefix("TopicStatistics").unwrap()
        });
        assert_eq!(names.collect::<Vec<_>>(), Vec::from_iter(alert.explained_by), "{}", alert.labels);
    }

    // Each other alert is in a message, and none of these.
    let (expected, explained): (Vec<_>, Vec<_>) =
        alerts.iter().partition(|alert| alert.explained_by.is_none());
    let mut told: Vec<Value> = vec![];
    while told.len() < expected.len() {
        let message = notifications.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("only {told:#?}"));
        let receiver = message["receiver"].as_str().unwrap();
        for alert in message["alerts"].as_array().unwrap() {
            let labels = &alert["labels"];
            assert_eq!(receiver == "pager", labels["severity"] == "page", "{receiver}: {labels}");
            told.push(labels.clone());
        }
    }
    for alert in &expected {
        assert!(told.contains(&alert.labels), "{} is not told: {told:#?}", alert.labels);
    }
    for alert in &explained {
        assert!(!told.contains(&alert.labels), "{} is told", alert.labels);
    }
}

/// amtool is in the same package of Debian.
#[test]
fn amtool_finds_nothing_wrong_and_routes_by_severity() {
    let Some(amtool) = find("amtool", "the routes of Alertmanager") else { return };
    let file = folder("grafana/alertmanager.yml");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&amtool);
        let output = command.args(arguments).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let file = file.to_str().unwrap();
    let checked = run(&["check-config", file]);
    assert!(checked.contains("SUCCESS") && checked.contains("3 inhibit rules"), "{checked}");
    let config = format!("--config.file={file}");
    for (severity, receiver) in [("page", "pager"), ("ticket", "tickets"), ("none", "tickets")] {
        let routed =
            run(&["config", "routes", "test", &config, &format!("severity={severity}"), "instance=r1"]);
        assert_eq!(routed.trim(), receiver, "{severity}");
    }
}
