// SPDX-License-Identifier: Apache-2.0

//! A node with messages of C++.

use test_support::{cpp::CppNode, domain, of, Metric, Program, Reader};

use crate::preloaded;

const COUNT: f64 = 100.0;

#[test]
fn a_node_in_cpp_has_the_figures_of_its_messages() {
    let Some(node) = CppNode::compile() else { return };
    let mut reader = Reader::start(domain());
    let mut command = node.command(domain());
    preloaded(
        &mut command,
        &[("PERIOD", "0.5"), ("METRICS", "message_age,message_period,publication_seq_gap")],
    );
    let mut node = Program::from(command.spawn().unwrap());
    // Of one topic, the source that is created later has a number.
    let (subscription, publisher) = ("/cpp:/imu", "/cpp:/imu (2)");
    let (service, client) = ("/cpp:/set_camera_info", "/cpp:/set_camera_info (2)");
    reader.read_until("windows", |metrics| metrics.iter().any(|metric| metric.source == client));
    assert_eq!(node.request(&COUNT.to_string()), COUNT.to_string());
    let count =
        |metrics: &[Metric], source, metric| of(metrics, source, metric).map(Metric::count).sum::<f64>();
    // Until a silent window follows the last message.
    let is_silent = |metrics: &[Metric], source, metric| {
        of(metrics, source, metric).last().is_some_and(|last| last.count() == 0.0)
    };
    reader.read_until("all messages", |metrics| {
        [
            (subscription, "message_age"),
            (publisher, "publish_duration_ms"),
            (service, "response_duration_ms"),
            (client, "round_trip_ms"),
        ]
        .into_iter()
        .all(|(source, metric)| count(metrics, source, metric) >= COUNT && is_silent(metrics, source, metric))
    });
    for (source, metric, expected) in [
        (subscription, "message_age", COUNT),
        (subscription, "publication_seq_gap", COUNT - 1.0),
        (publisher, "publish_duration_ms", COUNT),
        (service, "response_duration_ms", COUNT),
        (client, "source_to_callback_ms", COUNT),
        (client, "round_trip_ms", COUNT),
    ] {
        assert_eq!(count(&reader.metrics, source, metric), expected, "{source} {metric}");
    }
    let ages = reader.windows(subscription, "message_age").into_iter().filter(|age| age.count() > 0.0);
    for age in ages {
        assert!((250.0..1000.0).contains(&age.minimum()) && age.maximum() < 5000.0, "{age:?}");
    }
    let least =
        |source, metric| of(&reader.metrics, source, metric).map(Metric::minimum).fold(f64::NAN, f64::min);
    let (duration, round_trip) = (least(service, "response_duration_ms"), least(client, "round_trip_ms"));
    assert!(
        10.0 <= duration && duration <= round_trip && round_trip < 16.0,
        "{duration} ms in {round_trip} ms"
    );
    node.end();
}
