// SPDX-License-Identifier: Apache-2.0

//! Tests of `--chains` with rclpy nodes, most of which preload the library.

use serde_json::Value;
use test_support::{domain, preload, wait_for, Program};

use crate::run::Json;

fn start(arguments: &[&str], is_preloaded: bool) -> Program {
    let mut command = Program::command("chain.py", arguments, domain());
    if is_preloaded {
        preload::preload(&mut command, &preload::statistics());
        command.envs([("TOPIC_STATISTICS_PERIOD", "0.2"), ("TOPIC_STATISTICS_METRICS", "all")]);
    }
    command.spawn().unwrap().into()
}

#[test]
fn a_chain_has_the_costs_of_its_nodes_and_those_that_lack_them() {
    const COUNT: u64 = 6;
    let mut source = start(&["source", "/scan"], false);
    let _first = start(&["first", "/scan", "/points"], true);
    let _second = start(&["second", "/points", "/plan", "--delay", "0.5"], true);
    let mut third = start(&["third", "/plan", "/cmd_vel"], true);
    let _other = start(&["other", "/cmd_vel", "/wheels"], false);
    let chains = |to: &str| Json::start(&["--chains", "/scan", to], domain());
    let (monitor, incomplete) = (chains("/cmd_vel"), chains("/wheels"));
    monitor.until("all hops", |json| {
        if json["path"].is_null() {
            source.request("publish 1");
        }
        json["mean"].as_f64().is_some()
    });
    let counts = |json: &Value| -> Vec<u64> {
        json["hops"].as_array().into_iter().flatten().map(|hop| hop["count"].as_u64().unwrap()).collect()
    };
    let mut send = |count: u64| {
        for _ in 0..count {
            source.request("publish 1");
            let stamp = source.request("last");
            wait_for("the message", || third.request("last") == stamp);
        }
    };
    send(1);
    let (mut before, mut same) = (vec![], 0);
    monitor.until("no more messages", |json| {
        let now = counts(json);
        same = if std::mem::replace(&mut before, now.clone()) == now { same + 1 } else { 0 };
        same == 4
    });
    drop(monitor);

    // The windows that a new monitor receives contain only messages that are sent after its start.
    let monitor = chains("/cmd_vel");
    monitor.until("the path", |json| json["path"].is_array());
    send(COUNT);
    let path = monitor.until("all messages", |json| counts(json) == [COUNT; 3]);
    assert_eq!(path["path"], serde_json::json!(["/scan", "/points", "/plan", "/cmd_vel"]));
    let mean = |json: &Value| json["mean"].as_f64().unwrap();
    let means = [0, 1, 2].map(|hop| mean(&path["hops"][hop]));
    assert!((mean(&path) - means.iter().sum::<f64>()).abs() < 1e-6, "{path}");
    assert!((250.0..5000.0).contains(&means[1]), "{path}");
    assert_eq!((&path["same_messages"], &path["lost"]), (&true.into(), &0.into()), "{path}");
    assert_eq!((&path["worst"]["node"], &path["hops"][2]["node"]), (&"/second".into(), &"/third".into()));
    assert_eq!(path["hops"][1]["publications"], COUNT, "{path}");

    incomplete.until("the node that is missing", |json| {
        let missing = json["missing"].as_array().map_or(&[][..], Vec::as_slice);
        missing.len() == 1
            && missing[0].as_str().unwrap().starts_with("/other is not preloaded, or its windows")
    });
    incomplete
        .until_error("/other is not preloaded, or its windows are longer than 2 s: from /cmd_vel to /wheels");
}
