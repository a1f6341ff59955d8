// SPDX-License-Identifier: Apache-2.0

//! The ROS parameters of a node's statistics, at the start and at run time.

use crate::support::*;

#[test]
fn parameters_at_the_start_override_the_options() {
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
    let hour = || every(3_600_000).publish_topic("other");
    let [first, second] = [(); 2].map(|()| NodeStatistics::with_options(&node, hour()).unwrap());
    let [first_imu, second_imu] = [&first, &second].map(|statistics| subscribe::<Imu>(statistics, "imu"));
    assert!(
        !first_imu.statistics().is_enabled() && second_imu.statistics().is_enabled(),
        "the second has no parameters"
    );
    let _spinning = Spinning::start(executor);
    let disabled = "Topic statistics are disabled by the parameter topic_statistics.enabled";
    wait_for("the line in the node's log", || logged.has(|log| log.msg == disabled));
    for topic in ["/configured/own", "/other"] {
        wait_for("its publisher", || node.count_publishers(topic).unwrap() == 1);
    }
    first.set_state(StatisticsState::Enable);
    wait_for("windows of a second instead of an hour", || first_imu.statistics().latest().is_some());
    assert!(first_imu.statistics().latest().unwrap().length < Duration::from_secs(60));
    second.set_state(StatisticsState::Disable);
    assert!(!second_imu.statistics().is_enabled() && first_imu.statistics().is_enabled());
    drop((first, first_imu));
    second.set_state(StatisticsState::Enable);
    second.set_publish_period(Duration::from_millis(10)).unwrap();
    wait_for("windows of the second", || second_imu.statistics().latest().is_some());
    // The first `NodeStatistics` is dropped, so a new one can declare the parameters.
    assert!(!NodeStatistics::new(&node).unwrap().is_enabled());
}

#[test]
fn parameters_can_be_set_and_wrong_values_change_nothing() {
    // A condition on a topic applies to the publisher of this topic, whatever the source name is.
    let names = [SourceName::NodeAndTopic, SourceName::Node, SourceName::Custom("text".to_owned())];
    let conditions = "topic_statistics.warn_unless:=['/imu: lost=0 age.p50<50s', 'out0: rate>=1e6', \
                      '/out1: rate>=1e6', 'out2: rate>=1e6']";
    let (executor, node) = node("configured", &["--ros-args", "-p", conditions]);
    let statistics = NodeStatistics::with_options(&node, every(3_600_000)).unwrap();
    let measured = subscribe::<Imu>(&statistics, "imu");
    let other = subscribe::<Text>(&statistics, "other");
    let stopwatch = statistics.create_stopwatch("call");
    let publishers: Vec<_> = (0..3)
        .zip(names)
        .map(|(number, name)| {
            let topic = format!("out{number}");
            statistics.create_publisher::<Imu>(topic.statistics(every(100).source_name(name))).unwrap()
        })
        .collect();
    let talker = node.create_publisher::<Imu>("imu").unwrap();
    let _spinning = Spinning::start(executor);
    let operator = Mutex::new(Program::start("parameters.py", &["/configured"], domain()));
    let request = |verb: &str, name: &str, value: Value| -> Value {
        let command = json!([verb, format!("topic_statistics.{name}"), value]).to_string();
        serde_json::from_str(&operator.lock().unwrap().request(&command)).unwrap()
    };
    let get = |name| request("get", name, json!(null));
    let set = |name, value| assert_eq!(request("set", name, value), json!([true, ""]));
    let wait = |what: &str, is_there: &dyn Fn() -> bool| {
        wait_for(what, || {
            talker.publish(imu(Duration::from_secs(1))).unwrap();
            publishers.iter().for_each(|publisher| publisher.publish(Imu::default()).unwrap());
            stopwatch.time(|| thread::sleep(Duration::from_millis(1)));
            is_there()
        });
    };
    wait("warnings", &|| {
        publishers.iter().all(|one| one.statistics().health().borrow().level == Level::Warn)
    });

    assert_eq!(get("publish_period"), 3600.0);
    set("publish_period", json!(1));
    set("publish_period", json!(0.1));
    wait("windows", &|| other.statistics().latest().is_some() && stopwatch.statistics().latest().is_some());
    wait("all that conditions need", &|| {
        measured.statistics().latest().is_some_and(|window| {
            window.get(Metric::PublicationSeqGap).is_some()
                && window.distribution(Metric::MessageAge).is_some()
        })
    });
    assert!(other.statistics().latest().unwrap().get(Metric::PublicationSeqGap).is_none());
    for (name, value, reason) in [
        ("publish_period", json!(0.0), "it has to be from 0.001 to 86400.0 s"),
        ("publish_period", json!("soon"), "A publish period is a number of seconds, like 1.0"),
        ("publish_topic", json!("elsewhere"), "Parameter is read only"),
        ("enabled", json!(7), ""),
        ("distributions", json!(7), ""),
        ("warn_unless", json!(["rate>=90", "age<fast"]), "(character 5 of \"age<fast\")"),
        ("warn_unless", json!(["lost=0"]), "/configured:/other does not measure publication_seq_gap"),
    ] {
        let before = get(name);
        let answer = request("set", name, value);
        assert!(answer[0] == false && answer[1].as_str().unwrap().contains(reason), "{name}: {answer}");
        assert_eq!(get(name), before, "the old value is kept");
    }

    set("error_unless", json!(["/imu: rate>=1e6", "call: duration.max<0.1ms"]));
    let levels = || {
        [measured.statistics().health(), stopwatch.statistics().health()].map(|health| health.borrow().level)
    };
    wait("errors", &|| levels() == [Level::Error; 2]);
    set("error_unless", json!([""]));
    wait("no error", &|| levels() == [Level::Ok; 2]);
    assert_eq!(other.statistics().health().borrow().cause, Cause::NoMessageYet, "nothing is expected of it");

    let has_distribution =
        || stopwatch.statistics().latest().unwrap().distribution(Metric::Duration).is_some();
    assert!(!has_distribution());
    set("distributions", json!(true));
    wait("distributions", &has_distribution);
    // Values that the program sets are visible as parameters.
    statistics.set_distributions(false);
    wait("no distributions", &|| !has_distribution());
    for enabled in [false, true] {
        set("enabled", json!(enabled));
        assert_eq!(measured.statistics().is_enabled(), enabled);
    }
    statistics.set_state(StatisticsState::Disable);
    statistics.set_publish_period(Duration::from_secs(3)).unwrap();
    let values = ["distributions", "enabled", "publish_period", "publish_topic"].map(get);
    assert_eq!(values, [json!(false), json!(false), json!(3.0), json!("/statistics")]);
    let described = |name| request("describe", name, json!(null));
    assert!(described("publish_period")[1].as_str().unwrap().contains("0.001 to 86400"));
    assert_eq!(described("publish_topic")[2], true, "read only");
}
