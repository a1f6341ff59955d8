// SPDX-License-Identifier: Apache-2.0

//! Ages on simulated time, with a simulator in a second process. Windows are always on the system clock.

use std::time::{Duration, SystemTime};

use rclrs::*;
use rclrs_topic_statistics::{
    health::{Expectations, Level},
    AgeSource, IntoMeasuredOptions, MeasuredSubscription, Metric, NodeStatistics, Summary,
    TopicStatisticsOptions,
};
use ros_env::sensor_msgs::msg::Imu;
use test_support::{collect, domain, middleware, node, wait_for, Program, Spinning, Windows};

/// A node on simulated time that measures `imu`.
struct Simulated {
    imu: MeasuredSubscription<Imu>,
    windows: Windows,
    statistics: NodeStatistics,
    _spinning: Spinning,
}

impl Simulated {
    fn start(callback: fn()) -> Simulated {
        let arguments = ["--ros-args", "-p", "use_sim_time:=true"];
        let (executor, node) = node("simulated", &arguments);
        let metrics = [
            Metric::MessageAge,
            Metric::MessagePeriod,
            Metric::HeaderToSource,
            Metric::SourceToReceive,
            Metric::SourceToCallback,
            Metric::HeaderToCallback,
        ];
        let options =
            TopicStatisticsOptions::new().publish_period(Duration::from_millis(100)).metrics(metrics);
        let statistics = NodeStatistics::with_options(&node, options).unwrap();
        let imu = statistics.create_subscription("imu".keep_last(1000), move |_: Imu| callback()).unwrap();
        let windows = collect(imu.watch());
        Simulated { imu, windows, statistics, _spinning: Spinning::start(executor) }
    }

    /// Returns the values of a metric in all windows from index `from` on.
    fn all(&self, metric: Metric, from: usize) -> Vec<Summary> {
        self.windows.lock().unwrap()[from..].iter().map(|window| *window.get(metric).unwrap()).collect()
    }

    /// Waits for a number of further windows with ages. Returns the number of windows before.
    fn wait_for_ages(&self, what: &str, windows: usize) -> usize {
        let from = self.windows.lock().unwrap().len();
        wait_for(what, || {
            self.all(Metric::MessageAge, from).iter().filter(|age| age.sample_count > 0).count() >= windows
        });
        from
    }
}

#[test]
fn ages_are_measured_on_simulated_time_and_windows_on_the_system_clock() {
    let simulated = Simulated::start(|| ());
    let by_source = simulated
        .statistics
        .create_subscription(
            "imu".topic_statistics(TopicStatisticsOptions::new().age_source(AgeSource::SourceTimestamp)),
            |_: Imu| (),
        )
        .unwrap();
    // 0.5 s of simulated time are 0.17 s of real time.
    let mut simulator =
        Program::start("simulator.py", &["--speed", "3", "--stamp-age", "0.5", "--start", "2000"], domain());
    let expected = Expectations::new().error_unless("age<100000".parse().unwrap());
    let judged = simulated
        .statistics
        .create_subscription(
            "imu".topic_statistics(TopicStatisticsOptions::new().expect(expected)),
            |_: Imu| (),
        )
        .unwrap();
    wait_for("an error, because there is no clock", || {
        let health = judged.health().borrow().clone();
        health.level == Level::Error
            && health.to_string().contains("age not measured, because there is no /clock")
    });
    wait_for("messages before the clock begins", || simulated.imu.totals().received > 20);
    wait_for("window with messages", || {
        simulated.all(Metric::MessagePeriod, 0).iter().any(|period| period.sample_count > 1)
    });
    for age in simulated.all(Metric::MessageAge, 0) {
        assert!(age.sample_count == 0 && age.average.is_nan(), "simulated time has not begun: {age:?}");
    }

    simulator.send("begin");
    let from = simulated.wait_for_ages("ages", 10);
    wait_for("the end of the error", || judged.health().borrow().level == Level::Ok);
    let ages: Vec<_> =
        simulated.all(Metric::MessageAge, from).into_iter().filter(|age| age.sample_count > 0).collect();
    for age in &ages {
        // A clock that is 10 ms late in real time is 30 ms late in simulated time.
        assert!(age.minimum > 400.0 && age.average < 2000.0, "0.5 s old: {ages:#?}");
    }
    assert!(ages.iter().any(|age| age.average < 700.0), "{ages:#?}");
    for (whole, age) in simulated
        .all(Metric::HeaderToCallback, from)
        .iter()
        .zip(simulated.all(Metric::MessageAge, from))
        .filter(|(whole, _)| whole.sample_count > 0)
    {
        let figures =
            |summary: &Summary| (summary.average, summary.minimum, summary.maximum, summary.sample_count);
        assert_eq!(figures(whole), figures(&age), "header_to_callback_ms is also on simulated time");
    }
    for part in simulated.all(Metric::HeaderToSource, 0) {
        assert!(part.sample_count == 0, "its two times are of different clocks: {part:?}");
    }
    let has_samples = |metric| simulated.all(metric, from).iter().any(|part| part.sample_count > 0);
    assert!(has_samples(Metric::SourceToCallback), "both times are of the system clock");
    assert!(
        middleware::lacks_reception_timestamps("source_to_receive_ms beside simulated time")
            || has_samples(Metric::SourceToReceive)
    );
    wait_for("age by the source timestamp", || {
        let latest = by_source.latest();
        let age = latest.as_ref().and_then(|window| window.get(Metric::MessageAge));
        age.is_some_and(|age| age.sample_count > 0 && (0.0..400.0).contains(&age.minimum))
    });

    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as i64;
    let windows = simulated.windows.lock().unwrap();
    for window in windows.iter() {
        assert!(
            (now - window.window.stop.as_nanoseconds()).abs() < 60_000_000_000,
            "on the system clock: {window:?}"
        );
        let length = window.length.as_secs_f64() * 1e3;
        let stamped = window.window.stop.duration_since(window.window.start).unwrap().as_secs_f64() * 1e3;
        assert!((stamped - length).abs() < 1.0, "its start and stop are of real time: {window:?}");
        let period = window.get(Metric::MessagePeriod).unwrap();
        let periods =
            if period.sample_count == 0 { 0.0 } else { period.average * period.sample_count as f64 };
        assert!(periods <= length, "its periods fit in it, because they are of real time: {window:?}");
    }
    let whole: f64 = windows.iter().map(|window| window.length.as_secs_f64() * 1e3).sum();
    assert!(whole / windows.len() as f64 > 99.0, "100 ms of real time: {windows:?}");
}

/// Simulated time jumps back and forth while messages from before a jump are not yet received. No age may be absurd.
fn jumps(callback: fn(), lag: &str) {
    let simulated = Simulated::start(callback);
    let mut simulator = Program::start("simulator.py", &["--stamp-age", "0.05", "--lag", lag], domain());
    simulator.send("begin");
    simulated.wait_for_ages("ages", 5);
    for by in ["-500", "700", "-0.5", "3", "-90"] {
        simulator.send(&format!("jump {by}"));
        simulated.wait_for_ages(&format!("ages after a jump by {by} s"), 10);
    }
    let delays = simulated.all(Metric::SourceToCallback, 0);
    for (age, delay) in simulated.all(Metric::MessageAge, 0).iter().zip(&delays) {
        // 50 ms, the lag, and the delays of a busy machine and of the queue of a slow callback. One that mixes the times
        // before and after the jump by -0.5 s can be -450 ms.
        let is_plausible =
            age.sample_count == 0 || (age.minimum > -250.0 && age.maximum < delay.maximum + 400.0);
        assert!(is_plausible, "{age:?} with {delay:?} of {:#?}", simulated.all(Metric::MessageAge, 0));
    }
}

#[test]
fn a_jump_of_simulated_time_causes_no_absurd_age() {
    jumps(|| (), "0");
}

#[test]
fn a_jump_causes_no_absurd_age_of_messages_queued_for_a_slow_callback() {
    jumps(|| std::thread::sleep(Duration::from_millis(19)), "0");
}

#[test]
fn a_jump_causes_no_absurd_age_of_messages_of_a_publisher_with_a_late_clock() {
    jumps(|| (), "0.1");
}
