// SPDX-License-Identifier: Apache-2.0

//! The ROS parameters of a node's statistics: at the start, and at run time.

use crate::support::*;

#[test]
fn those_of_the_start_override_the_options_of_the_first_statistics() {
    if shares_its_process() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("parameters.yaml");
    let text = "configured:\n  ros__parameters:\n    topic_statistics: {enabled: false, publish_period: 1}\n";
    std::fs::write(&file, text).unwrap();
    let topic = "topic_statistics.publish_topic:=~/own";
    let arguments = ["--ros-args", "-p", topic, "--params-file", file.to_str().unwrap()];
    let (executor, node) = node("configured", &arguments);
    let logged = Received::<Log>::on(&node, "/rosout".keep_last(100).transient_local());
    let [first, second] = [(); 2]
        .map(|()| NodeStatistics::with_options(&node, every(3_600_000).publish_topic("other")).unwrap());
    let subscribe = |of: &NodeStatistics| of.create_subscription("imu", |_: Imu| ()).unwrap();
    let [of_first, of_second] = [&first, &second].map(subscribe);
    assert!(!of_first.is_enabled() && of_second.is_enabled(), "the second has no parameters");
    let _spinning = Spinning::start(executor);
    let disabled = "Topic statistics are disabled by the parameter topic_statistics.enabled";
    wait_for("the line in the node's log", || logged.has(|log| log.msg == disabled));
    for topic in ["/configured/own", "/other"] {
        wait_for("its publisher", || node.count_publishers(topic).unwrap() == 1);
    }
    first.set_state(TopicStatisticsState::Enable);
    wait_for("windows of a second instead of an hour", || of_first.latest().is_some());
    assert!(of_first.latest().unwrap().length < Duration::from_secs(60));
    second.set_state(TopicStatisticsState::Disable);
    assert!(!of_second.is_enabled() && of_first.is_enabled());
    second.set_state(TopicStatisticsState::Enable);
    second.set_publish_period(Duration::from_millis(10)).unwrap();
    drop((first, of_first));
    let mut windows = of_second.watch();
    windows.mark_unchanged();
    wait_for("windows of the second", || windows.has_changed().unwrap());
    // The parameters can be declared again.
    assert!(!subscribe(&NodeStatistics::new(&node).unwrap()).is_enabled());
}

#[test]
fn an_operator_sets_them_while_the_node_runs_and_a_wrong_one_changes_nothing() {
    let conditions = "topic_statistics.warn_unless:=['/imu: lost=0 age.p50<50s', 'out: rate>=1e6', \
                      '/by_node: rate>=1e6', 'custom: rate>=1e6']";
    let (executor, node) = node("configured", &["--ros-args", "-p", conditions]);
    let statistics = NodeStatistics::with_options(&node, every(3_600_000)).unwrap();
    let measured = statistics.create_subscription("imu", |_: Imu| ()).unwrap();
    let other = statistics.create_subscription("other", |_: Text| ()).unwrap();
    let stopwatch = statistics.create_stopwatch("call");
    let create = |topic: &str, name: SourceName| {
        let options = topic.topic_statistics(every(100).source_name(name));
        statistics.create_publisher::<Imu>(options).unwrap()
    };
    let publishers = [
        create("out", SourceName::NodeAndTopic),
        create("by_node", SourceName::Node),
        create("custom", SourceName::Custom("text".to_owned())),
    ];
    let talker = node.create_publisher::<Imu>("imu").unwrap();
    let _spinning = Spinning::start(executor);
    let mut operator = Program::start("parameters.py", &["/configured"], domain());
    let mut request = |verb: &str, name: &str, value: Value| -> Value {
        let command = json!([verb, format!("topic_statistics.{name}"), value]);
        serde_json::from_str(&operator.request(&command.to_string())).unwrap()
    };
    let wait = |what: &str, is_there: &dyn Fn() -> bool| {
        wait_for(what, || {
            talker.publish(imu(Duration::from_secs(1))).unwrap();
            publishers.iter().for_each(|publisher| publisher.publish(Imu::default()).unwrap());
            stopwatch.time(|| thread::sleep(Duration::from_millis(1)));
            is_there()
        });
    };
    // A condition finds a publisher by its topic, whatever its source is called.
    wait("a warning of each", &|| {
        publishers.iter().all(|publisher| publisher.health().borrow().level == Level::Warn)
    });

    assert_eq!(request("get", "publish_period", json!(null)), 3600.0);
    assert_eq!(request("set", "publish_period", json!(1)), json!([true, ""]), "a whole number");
    assert_eq!(request("set", "publish_period", json!(0.1)), json!([true, ""]));
    wait("windows, with all that conditions need", &|| {
        let window =
            measured.latest().filter(|window| window.count > 1 && window.length < Duration::from_secs(60));
        window.is_some_and(|window| {
            window.get(Metric::PublicationSeqGap).is_some()
                && window.distribution(Metric::MessageAge).is_some()
        })
    });
    wait("windows without a distribution", &|| other.latest().is_some() && stopwatch.latest().is_some());
    assert!(other.latest().unwrap().get(Metric::PublicationSeqGap).is_none());
    assert!(stopwatch.latest().unwrap().distribution(Metric::Duration).is_none());

    for (name, value, reason) in [
        ("publish_period", json!(0.0), "it has to be from 0.001 to 86400.0 s"),
        ("publish_period", json!("soon"), "A publish period is a number of seconds, like 1.0"),
        ("publish_topic", json!("elsewhere"), "Parameter is read only"),
        ("enabled", json!(7), ""),
        ("distributions", json!(7), ""),
        ("warn_unless", json!(["rate>=90", "age<fast"]), "(character 5 of \"age<fast\")"),
        ("warn_unless", json!(["lost=0"]), "/configured:/other does not measure publication_seq_gap"),
    ] {
        let before = request("get", name, json!(null));
        let answer = request("set", name, value);
        assert!(answer[0] == false && answer[1].as_str().unwrap().contains(reason), "{name}: {answer}");
        assert_eq!(request("get", name, json!(null)), before, "the old value is kept");
    }
    assert_eq!(request("get", "publish_topic", json!(null)), "/statistics");
    assert_eq!(measured.health().borrow().level, Level::Ok);

    let conditions = json!(["/imu: rate>=1e6", "call: duration.max<0.1ms"]);
    assert_eq!(request("set", "error_unless", conditions), json!([true, ""]));
    wait("errors", &|| {
        [measured.health(), stopwatch.health()].iter().all(|health| health.borrow().level == Level::Error)
    });
    assert_eq!(request("set", "error_unless", json!([""])), json!([true, ""]));
    wait("no error", &|| measured.health().borrow().level == Level::Ok);
    assert_eq!(other.health().borrow().cause, Cause::NoMessageYet, "nothing is expected of it");

    assert_eq!(request("set", "distributions", json!(true)), json!([true, ""]));
    let has_distribution = || stopwatch.latest().unwrap().distribution(Metric::Duration).is_some();
    wait("distributions", &has_distribution);
    statistics.set_distributions(false);
    assert_eq!(request("get", "distributions", json!(null)), false);
    wait("no distributions", &|| !has_distribution());

    assert_eq!(request("set", "enabled", json!(false)), json!([true, ""]));
    assert!(!measured.is_enabled());
    assert_eq!(request("set", "enabled", json!(true)), json!([true, ""]));
    assert!(measured.is_enabled());
    // Values that the program sets are visible as parameters.
    statistics.set_state(TopicStatisticsState::Disable);
    statistics.set_publish_period(Duration::from_secs(3)).unwrap();
    assert_eq!(request("get", "enabled", json!(null)), false);
    assert_eq!(request("get", "publish_period", json!(null)), 3.0);
    let descriptor = request("describe", "publish_period", json!(null));
    assert!(descriptor[0].as_str().unwrap().starts_with("Seconds"), "{descriptor}");
    assert!(descriptor[1].as_str().unwrap().contains("0.001 to 86400"), "{descriptor}");
    assert_eq!(request("describe", "publish_topic", json!(null))[2], true);
}
