// SPDX-License-Identifier: Apache-2.0

//! Tests `grafana/alertmanager.yml` with a real Alertmanager: who gets each notification, and which alerts are
//! inhibited.

use std::{
    fs,
    process::{Command, Stdio},
};

use serde_json::{json, Value};
use test_support::{wait_for, Process, LIMIT};

use crate::{
    common::{accept_all, folder, get, request},
    prometheus::{find, free_port},
};

/// Returns alerts with the labels that Prometheus adds, each with the name of the alert that inhibits it, if any.
fn alerts() -> Vec<(Value, Option<&'static str>)> {
    let (on_imu, on_scan) = ("node=/n topic=/imu", "node=/n topic=/scan");
    let alerts = [
        // An alert of severity "page" inhibits alerts of severity "ticket" of the same topic only.
        ("Unhealthy page r1", on_imu, None),
        ("MessagesLost ticket r1", on_imu, Some("Unhealthy")),
        ("RateOff ticket r1", on_imu, Some("Unhealthy")),
        ("ErrorBudgetBurn ticket r1", on_imu, Some("Unhealthy")),
        ("MessagesLost ticket r1", on_scan, None),
        ("MessagesLost ticket r2", on_imu, None),
        ("CallWaits ticket r1", on_imu, None),
        // While a robot's exporter is down, the other alerts of this robot are inhibited.
        ("ExporterDown page r3", "", None),
        ("TopicStopped ticket r3", on_imu, Some("ExporterDown")),
        ("NodesEnded ticket r3", "", Some("ExporterDown")),
        ("ExporterSilent page r4", "", None),
        ("MessagesLost ticket r4", on_imu, Some("ExporterSilent")),
        // The alert for an unreachable site inhibits `ExporterDown` of the site's own robots only.
        ("SiteUnreachable page", "site=north", None),
        ("ExporterDown page r5", "site=north", Some("SiteUnreachable")),
        ("ExporterDown page r6", "site=south", None),
        // If a robot of this site can still be scraped, its alerts are not inhibited.
        ("Unhealthy page r7", "site=north", None),
    ];
    alerts
        .map(|(alert, more, explained_by)| {
            let mut words = alert.split(' ');
            let mut labels = json!({
                "alertname": format!("TopicStatistics{}", words.next().unwrap()),
                "severity": words.next(),
                "job": "topic_statistics",
            });
            words.for_each(|instance| labels["instance"] = instance.into());
            let more = more.split(' ').filter_map(|pair| pair.split_once('='));
            more.for_each(|(name, value)| labels[name] = value.into());
            (labels, explained_by)
        })
        .into()
}

#[test]
fn an_alert_that_another_one_explains_is_not_sent() {
    const WHAT: &str = "inhibition in Alertmanager";
    let Some(program) = find("prometheus-alertmanager", WHAT) else { return };
    let (webhook, notifications) = accept_all();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("alertmanager.yml");
    let webhook = format!("webhook_configs: [{{url: 'http://{webhook}/', send_resolved: false}}]");
    let shipped = fs::read_to_string(folder("grafana/alertmanager.yml")).unwrap();
    let with_receivers = shipped
        .replace("{name: pager}", &format!("{{name: pager, {webhook}}}"))
        .replace("{name: tickets}", &format!("{{name: tickets, {webhook}}}"))
        // 3 s are enough for all alerts to arrive before the first notification.
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
            || request(address, "GET /-/ready HTTP/1.0\r\n\r\n").is_ok_and(|response| response.status == 200)
    });
    if alertmanager.status().is_some() {
        let errors: Vec<_> = errors.iter().collect();
        // Debian's Alertmanager reads its templates from a fixed path, which may not exist here.
        assert!(errors.iter().any(|line| line.contains("default.tmpl")), "{errors:#?}");
        return test_support::skip(WHAT, "the templates of Alertmanager are not installed");
    }
    let alerts = alerts();
    let body: Value = alerts.iter().map(|(labels, _)| json!({"labels": labels})).collect();
    let (body, length) = (body.to_string(), body.to_string().len());
    let header = "POST /api/v2/alerts HTTP/1.0\r\nContent-Type: application/json";
    let posted = request(address, &format!("{header}\r\nContent-Length: {length}\r\n\r\n{body}")).unwrap();
    assert_eq!(posted.status, 200, "{}", posted.text());

    // For each alert, the alerts that inhibit it.
    let mut explained = vec![];
    wait_for("the state of each alert", || {
        let all: Value = serde_json::from_slice(&get(address, "/api/v2/alerts").body).unwrap();
        let all = all.as_array().unwrap();
        let of = |labels: &Value| {
            let found = all.iter().find(|alert| alert["labels"] == *labels)?;
            let sources = found["status"]["inhibitedBy"].as_array().unwrap().iter();
            let names = sources.map(|source| {
                let source = all.iter().find(|alert| alert["fingerprint"] == *source).unwrap();
                source["labels"]["alertname"].as_str().unwrap().replace("TopicStatistics", "")
            });
            let is_suppressed = found["status"]["state"] == "suppressed";
            Some((is_suppressed, names.collect::<Vec<_>>()))
        };
        explained = alerts.iter().filter_map(|(labels, _)| of(labels)).collect();
        let expected = alerts.iter().map(|(_, by)| by.is_some());
        explained.iter().map(|(is_suppressed, _)| *is_suppressed).eq(expected)
    });
    for ((labels, by), (_, names)) in alerts.iter().zip(&explained) {
        assert_eq!(*names, Vec::from_iter(*by), "{labels}");
    }

    // The notifications contain all alerts that are not inhibited, and contain no inhibited alert.
    let (expected, explained): (Vec<_>, Vec<_>) = alerts.iter().partition(|(_, by)| by.is_none());
    let mut sent: Vec<Value> = vec![];
    while sent.len() < expected.len() {
        let (_, message) = notifications.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("only {sent:#?}"));
        let message: Value = serde_json::from_slice(&message).unwrap();
        for alert in message["alerts"].as_array().unwrap() {
            let labels = &alert["labels"];
            let is_page = labels["severity"] == "page";
            assert_eq!(message["receiver"] == "pager", is_page, "{labels}");
            sent.push(labels.clone());
        }
    }
    assert!(expected.iter().all(|(labels, _)| sent.contains(labels)), "{sent:#?}");
    assert!(!explained.iter().any(|(labels, _)| sent.contains(labels)), "{sent:#?}");
}

/// amtool is in the same Debian package as Alertmanager, and needs no templates.
#[test]
fn amtool_finds_nothing_wrong_and_routes_by_severity() {
    let Some(amtool) = find("amtool", "the routes of Alertmanager") else { return };
    let file = folder("grafana/alertmanager.yml");
    for (arguments, expected) in [
        ("check-config FILE", "3 inhibit rules"),
        ("config routes test --config.file=FILE severity=page instance=r1", "pager\n"),
        ("config routes test --config.file=FILE severity=ticket instance=r1", "tickets\n"),
        ("config routes test --config.file=FILE severity=none instance=r1", "tickets\n"),
    ] {
        let arguments = arguments.split(' ').map(|word| word.replace("FILE", file.to_str().unwrap()));
        let output = Command::new(&amtool).args(arguments).stdin(Stdio::null()).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed.contains(expected), "{output:?}");
    }
}
