// SPDX-License-Identifier: Apache-2.0

//! A process with ten nodes, parameters and an action, as a component container.

use std::{
    collections::BTreeSet,
    time::{SystemTime, UNIX_EPOCH},
};

use test_support::{domain, of, wait_for, Metric, Program, Reader};

use crate::{preloaded, processes::threads};

const NODES: usize = 10;
/// Orders of goals: two that succeed, one without feedback, one that is rejected, one that is canceled.
const GOALS: [&str; 5] = ["5", "0", "-1", "1000", "3"];
/// The feedback of these.
const FEEDBACK: f64 = 5.0 + 1.0 + 3.0;

fn container(arguments: &[&str], options: Option<&[(&str, &str)]>) -> Program {
    let nodes = NODES.to_string();
    let arguments = [&["--nodes", &nodes], arguments].concat();
    let mut command = Program::command("composition.py", &arguments, domain());
    if let Some(options) = options {
        preloaded(&mut command, options);
    }
    command.spawn().unwrap().into()
}

/// The sources of a node.
fn sources(node: usize) -> [String; 2] {
    let before = (node + NODES - 1) % NODES;
    [node, before].map(|topic| format!("/node_{node}:/topic_{topic}"))
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}

/// Reads until each node has published windows of its sources that began after this moment.
fn read_later_windows(reader: &mut Reader, nodes: &[usize]) {
    let now = now();
    let all: Vec<String> = nodes.iter().flat_map(|node| sources(*node)).collect();
    reader.read_until("a later window of each source", |metrics| {
        let later: BTreeSet<&str> =
            metrics.iter().filter(|metric| metric.start > now).map(|metric| &*metric.source).collect();
        all.iter().all(|source| later.contains(&**source))
    });
}

/// Waits until an observer sees `count` publishers on /statistics.
fn wait_for_publishers(observer: &mut Program, count: usize) {
    wait_for(&format!("{count} publishers on /statistics"), || {
        observer.request("publishers") == count.to_string()
    });
}

#[test]
fn parameters_and_actions_of_ten_nodes_answer_as_without_it() {
    let operate = |options| {
        let (mut container, mut operator) =
            (container(&[], options), Program::start("composition.py", &["--operator"], domain()));
        let mut answers = vec![operator.request(&format!("parameters {NODES}"))];
        container.request("clients 2");
        for order in GOALS {
            answers.extend(
                [&mut operator, &mut container].map(|client| client.request(&format!("goal {order}"))),
            );
        }
        (container, operator, answers)
    };
    let (plain, _, expected) = operate(None);
    assert!(
        expected[0].contains("Wrong parameter type") && expected[1].contains("[0, 1, 2, 3, 4]"),
        "{expected:?}"
    );
    drop(plain);

    let mut reader = Reader::start_with_depth(domain(), 1000);
    let (container, mut operator, answers) = operate(Some(&[("PERIOD", "0.3")]));
    assert_eq!(answers, expected);
    read_later_windows(&mut reader, &(0..NODES).collect::<Vec<_>>());
    wait_for_publishers(&mut operator, 1);
    let of_statistics = threads(container.id()).into_iter().filter(|name| name == "topic_stats").count();
    assert_eq!(of_statistics, 1);
    // Services of parameters and what is hidden, as all of an action is, are not measured. Each name is its node's own.
    let measured: BTreeSet<String> = reader
        .metrics
        .iter()
        .filter(|metric| metric.metric != "clock_offset_ms")
        .map(|metric| metric.source.clone())
        .collect();
    assert_eq!(measured, (0..NODES).flat_map(sources).collect());
}

#[test]
fn an_action_is_measured_by_its_names() {
    const FEEDBACK_TOPIC: &str = "/node_0:/act/_action/feedback";
    const SEND_GOAL: &str = "/node_0:/act/_action/send_goal";
    let mut reader = Reader::start_with_depth(domain(), 1000);
    let topics = "/act/_action/feedback,/act/_action/send_goal";
    let mut container = container(&[], Some(&[("PERIOD", "0.3"), ("TOPICS", topics)]));
    container.request("clients 1");
    reader.read_until("windows", |metrics| {
        [FEEDBACK_TOPIC, SEND_GOAL].iter().all(|source| metrics.iter().any(|metric| metric.source == *source))
    });
    for order in GOALS {
        container.request(&format!("goal {order}"));
    }
    let total = |metrics: &[Metric], source, metric, of_window: fn(&Metric) -> f64| {
        of(metrics, source, metric).map(of_window).sum::<f64>()
    };
    reader.read_until("all goals", |metrics| {
        total(metrics, SEND_GOAL, "requests", Metric::average) >= GOALS.len() as f64
            && total(metrics, FEEDBACK_TOPIC, "publish_duration_ms", Metric::count) >= FEEDBACK
            // And the next windows.
            && of(metrics, FEEDBACK_TOPIC, "publish_duration_ms").last().is_some_and(|last| last.count() == 0.0)
    });
    assert_eq!(total(&reader.metrics, SEND_GOAL, "requests", Metric::average), GOALS.len() as f64);
    assert_eq!(total(&reader.metrics, FEEDBACK_TOPIC, "publish_duration_ms", Metric::count), FEEDBACK);
}

#[test]
fn nodes_are_destroyed_in_any_order_and_the_others_publish_on() {
    let mut observer = Program::start("composition.py", &["--operator"], domain());
    let mut reader = Reader::start_with_depth(domain(), 1000);
    let mut container = container(&["--threads", "1"], Some(&[("PERIOD", "0.2")]));
    let mut left: Vec<usize> = (0..NODES).collect();
    read_later_windows(&mut reader, &left);
    // The first node has the publisher of all; after it, the first of those that are left.
    for node in [4, 0, 1, 9, 2, 8, 3, 6, 5, 7] {
        container.request(&format!("destroy {node}"));
        left.retain(|other| *other != node);
        wait_for_publishers(&mut observer, usize::from(!left.is_empty()));
        let destroyed = now();
        read_later_windows(&mut reader, &left);
        let own = sources(node);
        let late =
            reader.metrics.iter().find(|metric| metric.start > destroyed && own.contains(&metric.source));
        assert!(late.is_none(), "{late:?}");
    }
    // A node after all others has a publisher again.
    container.request("create 5");
    wait_for_publishers(&mut observer, 1);
    read_later_windows(&mut reader, &[5]);
    container.end();
}
