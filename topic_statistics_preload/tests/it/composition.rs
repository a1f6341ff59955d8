// SPDX-License-Identifier: Apache-2.0

//! A process with ten nodes, parameters and an action, like a component container.

use test_support::{domain, Program, Reader};

use crate::{count, host::threads, settle, start, total};

const NODES: usize = 10;
/// The orders of the goals. 5 and 3 succeed with feedback, 0 succeeds without feedback, -1 is rejected, 1000 is
/// canceled.
const GOALS: [&str; 5] = ["5", "0", "-1", "1000", "3"];
/// The number of feedback messages for these goals. The canceled goal has one feedback message.
const FEEDBACK: f64 = 5.0 + 1.0 + 3.0;

/// Returns the sources of some nodes, each with one of its metrics.
fn sources(nodes: &[usize]) -> Vec<(String, &'static str)> {
    let of_node = |node: &usize| {
        let before = (node + NODES - 1) % NODES;
        [(*node, "publish_period"), (before, "message_period")]
            .map(|(topic, metric)| (format!("/node_{node}:/topic_{topic}"), metric))
    };
    nodes.iter().flat_map(of_node).collect()
}

#[test]
fn parameters_and_actions_of_ten_nodes_answer_as_without_it() {
    const ACTION: [&str; 2] = ["/node_0:/act/_action/feedback", "/node_0:/act/_action/send_goal"];
    let operate = |container: &mut Program, operator: &mut Program| {
        let mut answers = vec![operator.request(&format!("parameters {NODES}"))];
        for order in GOALS {
            answers
                .extend([&mut *operator, container].map(|client| client.request(&format!("goal {order}"))));
        }
        answers
    };
    let mut operator = Program::start("composition.py", &[], domain());
    let nodes = ["--nodes", &NODES.to_string()];
    let mut plain = Program::start("composition.py", &nodes, domain());
    plain.request("clients 2");
    let expected = operate(&mut plain, &mut operator);
    assert!(
        expected[0].contains("Wrong parameter type") && expected[1].contains("[0, 1, 2, 3, 4]"),
        "{expected:?}"
    );
    plain.end();

    let mut reader = Reader::start_with_depth(domain(), 1000);
    // The topics and services of an action are measured only if the option names them.
    let topics = "/act/_action/feedback,/act/_action/send_goal,/topic_*";
    let options = [("PERIOD", "1"), ("METRICS", "message_period"), ("TOPICS", topics)];
    let mut container = start("composition.py", &nodes, &options);
    container.request("clients 2");
    let all = sources(&(0..NODES).collect::<Vec<_>>());
    settle(&mut reader, &all);
    assert_eq!(operate(&mut container, &mut operator), expected);
    settle(&mut reader, &[(ACTION[0], "publish_duration_ms"), (ACTION[1], "requests")]);
    assert_eq!(count(&reader.metrics, ACTION[0], "publish_duration_ms"), 2.0 * FEEDBACK);
    assert_eq!(total(&reader.metrics, ACTION[1], "requests"), 2.0 * GOALS.len() as f64);
    assert_eq!(operator.request("publishers"), "1", "on /statistics");
    assert_eq!(threads(container.id()).iter().filter(|(name, _)| name == "topic_stats").count(), 1);
    let of_client = |source: &str| source.starts_with("/node_9:/act/_action/");
    let is_expected = |source: &str| {
        of_client(source) || ACTION.contains(&source) || all.iter().any(|(own, _)| own == source)
    };
    let mut found =
        reader.metrics.iter().map(|metric| &metric.source).filter(|source| source.starts_with('/'));
    let other = found.find(|source| !is_expected(source));
    assert!(other.is_none(), "services of parameters are not measured: {other:?}");
}
