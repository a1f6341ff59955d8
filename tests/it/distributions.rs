// SPDX-License-Identifier: Apache-2.0

//! Distributions on `/statistics/distribution`, with a talker and reader in a second process that knows all samples.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use rclrs::*;
use rclrs_topic_statistics::{
    Distribution, IntoMeasuredOptions, Metric, NodeStatistics, NodeStatisticsOptions, TopicStatisticsOptions,
};
use ros_env::{sensor_msgs::msg::Imu, topic_statistics_interfaces::msg::MetricsDistribution};
use serde_json::{json, Value};
use test_support::{collect, domain, node, wait_for, Program, Spinning};

const TOPIC: &str = "/statistics/distribution";

/// Asserts that counts are exactly those of the reader's own samples, and that each quantile is within the error of its
/// scale.
fn assert_same(published: &Value, own: &Value) {
    for exact in ["count", "zero_count", "positive", "negative"] {
        assert_eq!(published[exact], own[exact], "{exact} of {published}, {own}");
    }
    let number = |figure: &Value| figure.as_f64().unwrap();
    let sum = number(&published["sum"]) - number(&own["sum"]);
    assert!(sum.abs() < 1e-6, "{published} {own}");
    if published["unit"].is_null() {
        return; // the reader has merged it
    }
    assert_eq!((&published["unit"], &published["zero_threshold"]), (&json!("ms"), &json!(0.0)));
    assert_eq!((&published["minimum"], &published["maximum"]), (&own["minimum"], &own["maximum"]));
    let error = 2_f64.powf(2_f64.powf(-number(&published["scale"]))) - 1.0;
    for quantile in ["p50", "p90", "p99", "p99_9"] {
        assert_eq!(published[quantile].is_null(), own[quantile].is_null(), "{quantile} of {published}");
        if !own[quantile].is_null() {
            let (ours, exact) = (number(&published[quantile]), number(&own[quantile]));
            assert!((ours - exact).abs() <= exact.abs() * error, "{quantile} {ours}, exactly {exact}");
        }
    }
}

#[test]
fn a_reader_with_its_own_record_finds_the_same_counts_and_quantiles() {
    assert!((0..5).any(|_| compare()), "each attempt had messages that were not measured");
}

/// Compares with the reader. Returns false if a message was not measured: by design, that is so if the thread that ends
/// the windows is preempted meanwhile.
fn compare() -> bool {
    let (executor, node) = node("listener", &["--ros-args", "-p", "use_sim_time:=true"]);
    let options = TopicStatisticsOptions::new().distributions(true).publish_period(Duration::from_secs(2));
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let imu = statistics.create_subscription("imu".keep_last(5000).reliable(), |_: Imu| ()).unwrap();
    let windows = collect(imu.watch());
    let clock = node.get_clock();
    let _spinning = Spinning::start(executor);
    let mut talker = Program::start("distributions.py", &[], domain());
    assert_eq!(talker.read("first distribution"), "connected");
    wait_for("simulated time", || clock.now().nsec > 0);
    talker.send("begin");
    let has_unrecorded = || windows.lock().unwrap().iter().any(|window| window.unrecorded > 0);
    let ages = || -> u64 {
        let windows = windows.lock().unwrap();
        windows
            .iter()
            .filter_map(|window| window.distribution(Metric::MessageAge))
            .map(Distribution::count)
            .sum()
    };
    wait_for("all ages", || ages() >= 4000 || has_unrecorded());
    if has_unrecorded() {
        return false;
    }

    let (mut compared, mut total) = (vec![], Value::Null);
    loop {
        let line = talker.read("distributions");
        if line == "end" {
            break;
        }
        let [published, own] = serde_json::from_str::<[Value; 2]>(&line).unwrap();
        assert_same(&published, &own);
        compared.push(published);
        total = own;
    }
    let merged = compared.pop().unwrap();
    assert_eq!(merged["count"], 4000);
    assert!(compared.iter().any(|window| !window["p99"].is_null()), "{compared:?}");

    // The same windows in the process, merged.
    let mut all = Distribution::default();
    for window in windows.lock().unwrap().iter() {
        if let Some(ages) = window.distribution(Metric::MessageAge) {
            assert_eq!(ages.count(), window.get(Metric::MessageAge).unwrap().sample_count);
            assert!(all.merge(ages));
        }
    }
    assert_eq!(all.count(), 4000);
    for (quantile, name) in [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99_9")] {
        let exact = total[name].as_f64().unwrap();
        let ours = all.quantile(quantile);
        assert!(
            (ours - exact).abs() <= exact.abs() * all.relative_error(),
            "{name}: {ours}, exactly {exact}"
        );
    }
    true
}

/// The sources and metrics of messages.
type Sources = Arc<Mutex<Vec<(String, String)>>>;

/// Subscribes to distributions. Returns the source and the metric of each one.
fn sources(node: &Node) -> (Sources, Subscription<MetricsDistribution>) {
    let sources = Arc::new(Mutex::new(vec![]));
    let to = Arc::clone(&sources);
    let subscription = node
        .create_subscription::<MetricsDistribution, _>(
            TOPIC.keep_last(1000),
            move |message: MetricsDistribution| {
                assert!(message.count > 0 && message.minimum <= message.maximum, "{message:?}");
                to.lock().unwrap().push((message.measurement_source_name, message.metrics_source));
            },
        )
        .unwrap();
    (sources, subscription)
}

#[test]
fn the_parameter_turns_them_on_and_off_while_the_node_runs() {
    let (executor, node) = node("bridge", &[]);
    let options = TopicStatisticsOptions::new().publish_period(Duration::from_millis(100));
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let imus = statistics.create_publisher::<Imu>("imu").unwrap();
    let stopwatch = statistics.create_stopwatch("get_imu");
    let never = TopicStatisticsOptions::new().distributions(false);
    let silent = statistics.create_publisher::<Imu>("silent".topic_statistics(never)).unwrap();
    let (sources, _subscription) = sources(&node);
    let _spinning = Spinning::start(executor);
    let mut operator = Program::start("parameters.py", &["/bridge"], domain());
    let mut request =
        |command: Value| -> Value { serde_json::from_str(&operator.request(&command.to_string())).unwrap() };
    let work = || {
        for _ in 0..3 {
            stopwatch.time(|| imus.publish(Imu::default())).unwrap();
            silent.publish(Imu::default()).unwrap();
        }
    };
    let windows = |count: usize| {
        let mut receiver = silent.watch();
        for _ in 0..count {
            receiver.mark_unchanged();
            wait_for("the end of a window", || {
                work();
                receiver.has_changed().unwrap()
            });
        }
    };
    // A window without publications has none.
    let has_distribution = || {
        wait_for("a window with a distribution", || {
            work();
            imus.latest().unwrap().distribution(Metric::PublishDuration).is_some()
        });
    };

    assert_eq!(request(json!(["get", "topic_statistics.distributions"])), false);
    windows(3);
    assert_eq!(node.count_publishers(TOPIC).unwrap(), 0, "nothing is created that is not asked for");
    assert_eq!(request(json!(["set", "topic_statistics.distributions", 7]))[0], false);
    assert_eq!(request(json!(["set", "topic_statistics.distributions", true])), json!([true, ""]));
    let expected = [
        ("/bridge:/imu", "publish_period"),
        ("/bridge:/imu", "publish_duration_ms"),
        ("/bridge:get_imu", "duration_ms"),
    ];
    wait_for("distributions of all that have one", || {
        work();
        let sources = sources.lock().unwrap();
        let is_there = |(source, metric): &(&str, &str)| {
            sources.iter().any(|(published, name)| published == source && name == metric)
        };
        expected.iter().all(is_there)
    });
    has_distribution();
    assert!(sources.lock().unwrap().iter().all(|(source, _)| source != "/bridge:/silent"));

    assert_eq!(request(json!(["set", "topic_statistics.distributions", false])), json!([true, ""]));
    windows(3); // the first one may have them
    assert!(imus.latest().unwrap().distribution(Metric::PublishDuration).is_none());
    statistics.set_distributions(true);
    assert_eq!(request(json!(["get", "topic_statistics.distributions"])), true);
    windows(2);
    has_distribution();
}

#[test]
fn an_invalid_value_of_the_parameter_is_an_error_at_the_start() {
    let arguments = ["--ros-args", "-p", "topic_statistics.distributions:=7"];
    let (_executor, node) = node("bridge", &arguments);
    let error = NodeStatistics::new(&node).err().unwrap().to_string();
    assert!(error.contains("topic_statistics.distributions") && error.contains("true or false"), "{error}");
}

#[test]
fn the_service_has_the_figures_of_all_finished_windows_since_the_creation() {
    let (executor, node) = node("listener", &[]);
    let options = TopicStatisticsOptions::new().distributions(true).publish_period(Duration::from_secs(2));
    let options = NodeStatisticsOptions::new().topic_statistics(options).topic_statistics_service(true);
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let imu = statistics.create_subscription("imu".keep_last(1000).reliable(), |_: Imu| ()).unwrap();
    let talker = node.create_publisher::<Imu>("imu".keep_last(1000).reliable()).unwrap();
    let _spinning = Spinning::start(executor);
    // The test merges the distributions of all windows itself.
    let windows = collect(imu.watch());
    let merged = || {
        let mut own = Distribution::default();
        for ages in
            windows.lock().unwrap().iter().filter_map(|window| window.distribution(Metric::MessageAge))
        {
            assert!(own.merge(ages));
        }
        own
    };
    wait_for("150 ages in finished windows", || {
        let mut message = Imu::default();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        message.header.stamp.sec = now.as_secs() as i32;
        message.header.stamp.nanosec = now.subsec_nanos();
        talker.publish(message).unwrap();
        merged().count() >= 150
    });
    wait_for("a window without messages", || imu.latest().is_some_and(|window| window.count == 0));
    let own = merged();
    let ours = statistics.totals();
    let total = ours[0].distribution(Metric::MessageAge).unwrap();
    assert_eq!(total, &own);
    assert_eq!(total.count(), imu.totals().received, "every message has an age");

    let mut client = Program::start("losses.py", &[], domain());
    let answer: Value = serde_json::from_str(&client.request("totals /listener")).unwrap();
    let figures = answer["totals"][0]["metrics"]["message_age"].as_array().unwrap().clone();
    assert_eq!((&figures[0], &figures[1]), (&json!("ms"), &json!(own.count())));
    let figures: Vec<_> = figures[2..].iter().map(|figure| figure.as_f64().unwrap()).collect();
    assert_eq!(figures, [own.quantile(0.5), own.quantile(0.99), own.maximum()]);
    assert!(answer["totals"][0]["metrics"]["message_period"].is_array(), "{answer}");
}
