// SPDX-License-Identifier: Apache-2.0

//! Ages in simulated time, and their distributions. The test sets the simulated time, so all ages are exact.

use ros_env::{
    builtin_interfaces::msg::Time, rosgraph_msgs::msg::Clock,
    topic_statistics_interfaces::msg::MetricsDistribution,
};

use crate::support::*;

const MS: i64 = 1_000_000;

fn time(nanoseconds: i64) -> Time {
    Time { sec: (nanoseconds / (1000 * MS)) as i32, nanosec: (nanoseconds % (1000 * MS)) as u32 }
}

fn merged(windows: &Windows) -> Distribution {
    let mut all = Distribution::default();
    for window in windows.0.lock().unwrap().iter() {
        assert_eq!(window.unrecorded, 0);
        window.distribution(Metric::MessageAge).into_iter().for_each(|ages| assert!(all.merge(ages)));
    }
    all
}

#[test]
fn ages_on_simulated_time_are_exact_in_every_report() {
    let (executor, node) = node("simulated", &["--ros-args", "-p", "use_sim_time:=true"]);
    let metrics = Metric::OF_SUBSCRIPTIONS;
    let expected = Expectations::new().error_unless("age<100000".parse().unwrap()).raise_after(1);
    let options = every(100).metrics(metrics).distributions(true).expect(expected);
    let options = NodeStatisticsOptions::new().statistics(options).topic_statistics_service(true);
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let measured = subscribe::<Imu>(&statistics, "imu".keep_last(1000));
    let windows = Windows::collect(measured.statistics().watch());
    let published = Received::<MetricsDistribution>::on(&node, "/statistics/distribution".keep_last(1000));
    let clock = node.create_publisher::<Clock>("/clock").unwrap();
    let talker = node.create_publisher::<Imu>("imu".keep_last(1000)).unwrap();
    let _spinning = Spinning::start(executor);
    wait_for_subscriptions(&talker, 1);
    let set = |now: i64| {
        wait_for("simulated time", || {
            clock.publish(Clock { clock: time(now) }).unwrap();
            node.get_clock().now().nsec == now
        });
    };
    // Only one message is under way at a time, because a message that arrives while a window ends is possibly not
    // measured.
    let publish = |stamp: i64| {
        let received = measured.statistics().totals().unwrap().received;
        let mut message = Imu::default();
        message.header.stamp = time(stamp);
        talker.publish(message).unwrap();
        wait_for("the message", || measured.statistics().totals().unwrap().received > received);
    };

    wait_for("an error, because there is no clock", || {
        publish(5000 * MS);
        let health = measured.statistics().health().borrow().clone();
        let reason = "age not measured, because there is no /clock";
        health.level == Level::Error && health.to_string().contains(reason)
    });
    assert_eq!(windows.total(Metric::MessageAge), 0);

    const NOW: i64 = 1_000_000 * MS;
    set(NOW);
    let mut own = Distribution::default();
    for number in 0..200 {
        let age = number * number - 400; // milliseconds: some are negative, and one is 0
        publish(NOW - age * MS);
        assert!(own.accept(age as f64));
    }
    wait_for("all ages in windows", || windows.total(Metric::MessageAge) == 200);
    assert_eq!(merged(&windows), own);
    assert_eq!(windows.total(Metric::HeaderToCallback), 200);
    assert_eq!(windows.total(Metric::HeaderToSource), 0, "the two times are from different clocks");
    assert!(windows.0.lock().unwrap().iter().all(|window| window.get(Metric::HeaderToSource).is_some()));
    assert!(windows.total(Metric::SourceToCallback) > 200, "both times are from the system clock");
    wait_for("the end of the error", || measured.statistics().health().borrow().level == Level::Ok);
    let stop = SystemTime::from(windows.0.lock().unwrap()[0].window.stop);
    assert!(stop.elapsed().unwrap() < Duration::from_secs(120), "windows are on the system clock");

    let ages = || {
        let mut ages = published.all();
        ages.retain(|message| message.metrics_source == "message_age");
        ages
    };
    wait_for("all ages on the topic", || ages().iter().map(|one| one.count).sum::<u64>() == 200);
    for message in ages() {
        let (windows, stop) = (windows.0.lock().unwrap(), nanoseconds(&message.window_stop));
        let window = windows.iter().find(|window| window.window.stop.as_nanoseconds() == stop).unwrap();
        let ages = window.distribution(Metric::MessageAge).unwrap();
        assert_eq!((message.unit.as_str(), message.count, message.scale), ("ms", ages.count(), ages.scale()));
        assert_eq!((message.positive_offset, message.positive_counts), ages.positive_counts());
        assert_eq!((message.minimum, message.maximum), (ages.minimum(), ages.maximum()));
        let quantiles = [message.p50, message.p90, message.p99, message.p99_9].map(f64::to_bits);
        assert_eq!(quantiles, [0.5, 0.9, 0.99, 0.999].map(|share| ages.quantile(share).to_bits()));
    }

    assert_eq!(statistics.totals()[0].distribution(Metric::MessageAge), Some(&own));
    let mut client = Program::start("losses.py", &[], domain());
    let answer: Value = serde_json::from_str(&client.request("totals /simulated")).unwrap();
    let expected = json!(["ms", 200, own.quantile(0.5), own.quantile(0.99), own.maximum()]);
    assert_eq!(answer["totals"][0]["metrics"]["message_age"], expected);
}
