// SPDX-License-Identifier: Apache-2.0

//! `--chains`: real rclpy nodes with the preloaded library, whose last one measures the whole way itself.

use serde_json::Value;
use test_support::{domain, preload, wait_for, Program};

use crate::run::{run, text, Json};

/// How far the sum may be from what the last node measures, in ms: the serialization between the hops, Python's calls
/// up to the middleware.
const TOLERANCE: f64 = 5.0;

fn start(arguments: &[&str], is_preloaded: bool) -> Program {
    let mut command = Program::command("chain.py", arguments, domain());
    if is_preloaded {
        preload::preload(&mut command, &preload::statistics());
        command.envs([("TOPIC_STATISTICS_PERIOD", "0.2"), ("TOPIC_STATISTICS_METRICS", "all")]);
    }
    command.spawn().unwrap().into()
}

/// Waits until the monitor has printed an object that is as wanted. Returns it.
fn wait_for_object(what: &str, monitor: &Json, mut wanted: impl FnMut(&Value) -> bool) -> Value {
    let mut found = Value::Null;
    wait_for(what, || {
        let objects = monitor.lines.try_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap());
        found = objects.filter(&mut wanted).last().unwrap_or_default();
        !found.is_null()
    });
    found
}

/// Publishes a message, and waits until the last node has published it: no message waits for another one.
fn send(source: &mut Program, last: &mut Program) {
    source.request("publish 1");
    let stamp = source.request("last");
    wait_for("the message", || last.request("last") == stamp);
}

fn counts(path: &Value) -> Vec<u64> {
    path["hops"].as_array().unwrap().iter().map(|hop| hop["count"].as_u64().unwrap()).collect()
}

#[test]
fn a_chain_of_three_processes_costs_what_its_last_node_measures() {
    const COUNT: u64 = 30;
    let mut source = start(&["source", "/scan"], false);
    let _first = start(&["first", "/scan", "/points"], true);
    let _second = start(&["second", "/points", "/plan", "--delay", "0.03"], true);
    let mut third = start(&["third", "/plan", "/cmd_vel"], true);
    let arguments = ["--chains", "/scan", "/cmd_vel"];
    let monitor = Json::with_period("0.5", &arguments, domain());
    // Messages get through when the nodes have found each other.
    wait_for("the first message", || {
        source.request("publish 1");
        third.request("count") != "0"
    });
    wait_for("all hops", || {
        send(&mut source, &mut third);
        let mut objects = monitor.lines.try_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap());
        objects.any(|json| json["mean"].as_f64().is_some())
    });
    let mut before = vec![];
    wait_for_object("no more messages", &monitor, |json| {
        let now = counts(json);
        std::mem::replace(&mut before, now.clone()) == now
    });
    drop(monitor);

    // Each sees windows of its messages only. A process that is held up between two hops is in no hop: the measurement is
    // repeated then.
    let mut measure = || {
        let monitor = Json::with_period("0.5", &arguments, domain());
        wait_for_object("the path", &monitor, |json| json["path"].is_array());
        third.request("age");
        (0..COUNT).for_each(|_| send(&mut source, &mut third));
        let whole: f64 = third.request("age").parse().unwrap();
        let are_all = |json: &Value| counts(json).iter().all(|count| *count >= COUNT);
        let path = wait_for_object("all messages", &monitor, are_all);
        let mean = path["mean"].as_f64().unwrap();
        println!("sum {mean:.2} ms, measured {whole:.2} ms: {path}");
        (path, (mean - whole).abs() < TOLERANCE)
    };
    let measured = (0..3).map(|_| measure()).find(|(_, is_same)| *is_same);
    let (path, _) = measured.expect("a sum that is what the last node measures");
    let topics = ["/scan", "/points", "/plan", "/cmd_vel"];
    assert_eq!(
        path["path"].as_array().unwrap().iter().map(|topic| topic.as_str().unwrap()).collect::<Vec<_>>(),
        topics
    );
    let means: Vec<f64> = (0..3).map(|hop| path["hops"][hop]["mean"].as_f64().unwrap()).collect();
    let mean = path["mean"].as_f64().unwrap();
    assert!((mean - means.iter().sum::<f64>()).abs() < 1e-6, "{path}");
    assert_eq!(path["same_messages"], true, "{path}");
    assert!(means[1] >= 30.0, "{path}");
    assert_eq!((&path["worst"]["node"], &path["p99"]), (&"/second".into(), &Value::Null), "{path}");
    assert_eq!(path["lost"], 0, "{path}");
    assert_eq!(path["hops"][2]["node"], "/third");
    assert!(path["hops"][1]["publications"].as_u64().is_some(), "{path}");
}

#[test]
fn a_node_that_is_not_preloaded_is_named() {
    let _first = start(&["first", "/scan", "/points"], true);
    let _second = start(&["second", "/points", "/plan"], false);
    let _timed = start(&["timed", "/plan", "/other", "--timed", "/cmd_vel"], true);
    let mut source = start(&["source", "/scan"], false);
    let monitor = Json::with_period("0.5", &["--chains", "/scan", "/cmd_vel"], domain());
    let json = wait_for_object("what is missing", &monitor, |json| {
        source.request("publish 1");
        let has = |text: &str| json["missing"].to_string().contains(text);
        has("/second is not preloaded") && has("/timed has made no publication on /cmd_vel") && !has("/first")
    });
    assert_eq!(json["missing"].as_array().unwrap().len(), 2, "{json}");
    // On a busy machine, the first ones may end before they know the nodes.
    let said = ["4", "12", "24"]
        .map(|duration| ["--chains", "/scan", "/cmd_vel", "--duration", duration])
        .iter()
        .any(|arguments| {
            let output = run(arguments, domain());
            let errors = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{errors}");
            println!("{errors}");
            errors.contains("/second is not preloaded: from /points to /plan")
        });
    assert!(said, "what is missing is printed above");
}
