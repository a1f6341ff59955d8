// SPDX-License-Identifier: Apache-2.0

//! Messages on real topics, and their time series.

use ros_env::statistics_msgs::msg::MetricsMessage;
use test_support::{domain, wait_for};
use topic_statistics_programs::statistics::MAX_NAME;

use crate::{
    process::{Exporter, Series},
    robot::{message, Robot},
};

/// 50 samples around 2 ms.
const FIGURES: [f64; 5] = [2.0, 4.0, 1.0, 50.0, 0.5];

/// Publishes a mark, and scrapes until it has been received: everything before it has been, too.
fn settle(robot: &Robot, exporter: &Exporter, number: i32) -> Series {
    robot.publish("/mark:/mark", "message_age", 1_000_000 + number, [1.0, 1.0, 1.0, 1.0, 0.0]);
    let count = f64::from(number);
    exporter.scrape_until("mark", |series| {
        series.get(r#"message_age_seconds_count{node="/mark",topic="/mark",kind="subscription"}"#)
            == Some(count)
    })
}

#[test]
fn windows_become_gauges_and_counters() {
    let domain = domain();
    let exporter = Exporter::start(&[], domain);
    let robot = Robot::start();
    for stop in [100, 101, 102] {
        robot.publish("/listener:/imu", "message_age", stop, FIGURES);
        robot.publish("/listener:/imu", "message_period", stop, [20.0, 30.0, 10.0, 49.0, 2.0]);
    }
    // The same windows once more, from a relay; and another one, with a unique stop.
    for stop in [100, 101, 102] {
        robot.publish("/listener:/imu", "message_age", stop, FIGURES);
    }
    robot.publish("/listener:/imu", "publication_seq_gap", 102, [0.06, 2.0, 0.0, 50.0, 0.3]);
    robot.publish("cpp_listener", "message_age", 102, FIGURES);
    robot.publish("/bridge:get_imu", "duration_ms", 102, FIGURES);
    robot.publish_losses("/listener", "/imu", 3);
    robot.publish_losses("/listener", "/imu", 4);
    robot.publish_diagnostic("/listener: Topic statistics", 1);
    robot.publish_diagnostic("/listener: Topic statistics", 2);
    // The first scrape with a count of losses has 0.
    let lost = r#"messages_lost_total{node="/listener",topic="/imu",kind="subscription"}"#;
    let is_there = |series: &Series| {
        series.get(lost) == Some(3.0)
            && series.get(r#"messages_reported_lost_total{node="/listener",topic="/imu"}"#) == Some(7.0)
            && series.get(r#"diagnostic_level{name="/listener: Topic statistics"}"#) == Some(2.0)
    };
    exporter.scrape_until("losses and diagnostics", is_there);
    let series = settle(&robot, &exporter, 1);
    let imu =
        |name: &str| series.get(&format!(r#"{name}{{node="/listener",topic="/imu",kind="subscription"}}"#));
    for (name, value) in [
        ("message_age_mean_seconds", 0.002),
        ("message_age_min_seconds", 0.001),
        ("message_age_max_seconds", 0.004),
        ("message_age_stddev_seconds", 0.0005),
        ("message_age_seconds_count", 150.0),
        ("message_age_seconds_sum", 0.3),
        ("message_period_seconds_count", 147.0),
        ("receive_rate_hertz", 50.0),
        ("messages_received_total", 150.0),
        ("messages_lost_total", 3.0),
    ] {
        let is = imu(name).unwrap_or(f64::NAN);
        assert!((is - value).abs() <= 1e-12 * value, "{name} is {is}, not {value}");
    }
    assert_eq!(series.get(r#"windows_total{node="/listener",topic="/imu"}"#), Some(3.0));
    assert_eq!(series.get(r#"exporter_messages_refused_total{reason="duplicate"}"#), Some(3.0));
    assert_eq!(
        series.get(r#"message_age_mean_seconds{node="cpp_listener",kind="subscription"}"#),
        Some(0.002)
    );
    assert_eq!(
        series.get(r#"duration_max_seconds{node="/bridge",name="get_imu",kind="stopwatch"}"#),
        Some(0.004)
    );
    assert_eq!(series.with("NaN").count(), 0);
}

/// A node that subscribes twice to what it publishes: each of its sources has its own counts, equal to the sender's.
#[test]
fn sources_of_equal_names_are_not_summed_up() {
    use rclrs::{CreateBasicExecutor, IntoPrimitiveOptions};
    use rclrs_topic_statistics::{Metric, NodeStatistics, TopicStatisticsOptions};
    use ros_env::sensor_msgs::msg::Imu;
    const MESSAGES: usize = 239;
    let domain = domain();
    let exporter = Exporter::start(&[], domain);
    let executor = test_support::context(domain, &[]).create_basic_executor();
    let node = executor.create_node("relay").unwrap();
    let options = TopicStatisticsOptions::new()
        .publish_period(std::time::Duration::from_millis(200))
        .metrics([Metric::SourceToCallback, Metric::MessageSize]);
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let subscribe = || statistics.create_subscription("imu".keep_last(1000), |_: Imu| ()).unwrap();
    let _subscriptions = [subscribe(), subscribe()];
    let publisher = statistics.create_publisher::<Imu>("imu".keep_last(1000)).unwrap();
    let _spinning = test_support::Spinning::start(executor);
    wait_for("subscriptions", || publisher.get_subscription_count().unwrap() == 2);
    exporter.scrape_until("windows", |series| {
        ["/imu", "/imu (2)", "/imu (3)"].iter().all(|topic| {
            series.with(&format!("windows_total{{node=\"/relay\",topic=\"{topic}\"")).count() == 1
        })
    });
    (0..MESSAGES).for_each(|_| publisher.publish(Imu::default()).unwrap());
    let count = |series: &Series, name: &str, topic: &str, kind: &str| {
        series.get(&format!("{name}{{node=\"/relay\",topic=\"{topic}\"{kind}}}")).unwrap_or(0.0) as usize
    };
    let sizes = |series: &Series| {
        ["/imu", "/imu (2)", "/imu (3)"].map(|topic| count(series, "message_size_bytes_count", topic, ""))
    };
    let series = exporter.scrape_until("all messages", |series| {
        sizes(series).into_iter().all(|count| count >= MESSAGES)
            || series.with("message_size_bytes_count").any(|(_, count)| count > MESSAGES as f64)
    });
    assert_eq!(
        sizes(&series),
        [MESSAGES; 3],
        "{:?}",
        series.with("message_size_bytes_count").collect::<Vec<_>>()
    );
    let published = count(&series, "messages_published_total", "/imu (3)", ",kind=\"publisher\"");
    let received = count(&series, "messages_received_total", "/imu (2)", ",kind=\"subscription\"");
    assert_eq!((published, received), (MESSAGES, MESSAGES));
}

#[test]
fn what_was_not_measured_is_absent() {
    let domain = domain();
    let exporter = Exporter::start(&[], domain);
    let robot = Robot::start();
    robot.publish("/listener:/imu", "message_age", 100, FIGURES);
    let series = settle(&robot, &exporter, 1);
    let age = r#"message_age_mean_seconds{node="/listener",topic="/imu",kind="subscription"}"#;
    assert_eq!(series.get(age), Some(0.002));
    // A window without messages; one with negative samples, because the clocks of two hosts differ.
    robot.publish("/listener:/imu", "message_age", 101, [f64::NAN, f64::NAN, f64::NAN, 0.0, f64::NAN]);
    let series = settle(&robot, &exporter, 2);
    assert_eq!(
        series.with("message_age").filter(|(name, _)| name.contains("_seconds{node=\"/listener\"")).count(),
        0
    );
    let count = r#"message_age_seconds_count{node="/listener",topic="/imu",kind="subscription"}"#;
    assert_eq!(series.get(count), Some(50.0), "counters stay");
    robot.publish("/listener:/imu", "message_age", 102, [-1.0, 1.0, -2.0, 50.0, 0.5]);
    let series = settle(&robot, &exporter, 3);
    assert_eq!(series.get(age), Some(-0.001));
    assert_eq!(series.get(count), Some(50.0), "a sum that falls would be a restart");
    let negative = r#"message_age_negative_windows_total{node="/listener",topic="/imu",kind="subscription"}"#;
    // The first scrape with it has 0.
    let series = match series.get(negative) {
        Some(0.0) => exporter.scrape_until("the next response", |series| series.get(negative) != Some(0.0)),
        _ => series,
    };
    assert_eq!(series.get(negative), Some(1.0));
    let received = r#"messages_received_total{node="/listener",topic="/imu",kind="subscription"}"#;
    assert_eq!(series.get(received), Some(100.0));
}

#[test]
fn foreign_names_and_numbers_do_no_harm() {
    let domain = domain();
    let exporter = Exporter::start(&[], domain);
    let robot = Robot::start();
    let hostile = "/x\"} 1\nfoo{a=\"\\:/y\u{1b}[2J\u{202e}\"\\";
    robot.publish(hostile, "message_age", 100, FIGURES);
    robot.publish("/listener:/imu", "up{}\n# EOF", 100, FIGURES);
    robot.publish(&"x".repeat(MAX_NAME + 1), "message_age", 100, FIGURES);
    for (index, value) in
        [(3, -1.0), (3, 0.5), (3, f64::INFINITY), (0, 1e300), (1, f64::NEG_INFINITY), (2, 5.0)]
    {
        let mut figures = FIGURES;
        figures[index] = value;
        robot.publish("/foreign:/imu", "message_age", 100, figures);
    }
    robot.publish_message(MetricsMessage {
        statistics: vec![],
        ..message("/foreign:/imu", "x", 100, FIGURES)
    });
    let series = settle(&robot, &exporter, 1);
    assert_eq!(series.get(r#"exporter_messages_refused_total{reason="invalid"}"#), Some(8.0));
    assert_eq!(series.with("/foreign").count(), 0);
    let name = r#"{node="/x\"} 1\\u{a}foo{a=\"\\",topic="/y\\u{1b}[2J\\u{202e}\"\\",kind="subscription"}"#;
    assert_eq!(series.get(&format!("message_age_mean_seconds{name}")), Some(0.002));
    let other = r#"other_mean{node="/listener",topic="/imu",metric="up{}\\u{a}# EOF",unit="seconds"}"#;
    assert_eq!(series.get(other), Some(0.002));
}

#[test]
fn series_are_bounded_and_a_source_that_ended_is_gone() {
    let domain = domain();
    // Room for two sources with one metric each.
    let exporter = Exporter::start(&["--ros-args", "-p", "max_series:=40", "-p", "keep_windows:=2"], domain);
    let robot = Robot::start();
    for node in 0..100 {
        robot.publish(&format!("/node_{node}:/imu"), "message_age", 100, FIGURES);
    }
    let refused = r#"exporter_messages_refused_total{reason="series_limit"}"#;
    let series = exporter.scrape_until("refused", |series| series.get(refused) == Some(98.0));
    assert_eq!(series.with("message_age_mean").count(), 2);
    assert!(series.with("/node_").count() <= 40, "{series:?}");
    exporter.wait_for_line("max_series");
    // No window for 10 s. Then there is room for others.
    exporter.scrape_until("end of the sources", |series| series.with("/node_").count() == 0);
    robot.publish("/node_99:/imu", "message_age", 200, FIGURES);
    exporter.scrape_until("a new source", |series| series.with("/node_99").count() > 0);
}

#[test]
fn a_publisher_that_is_best_effort_is_received_and_topics_can_be_chosen() {
    use rclrs::{CreateBasicExecutor, IntoPrimitiveOptions};
    let domain = domain();
    let exporter = Exporter::start(
        &["--statistics-topics", "/r1/statistics,/r2/statistics", "--diagnostics-topics", ""],
        domain,
    );
    let executor = test_support::context(domain, &[]).create_basic_executor();
    let node = executor.create_node("chosen").unwrap();
    let reliable = node.create_publisher::<MetricsMessage>("/r1/statistics").unwrap();
    let best_effort = node.create_publisher::<MetricsMessage>("/r2/statistics".best_effort()).unwrap();
    let other = node.create_publisher::<MetricsMessage>("/statistics").unwrap();
    let mut stop = 100;
    let both = exporter.scrape_until("both", |series| {
        stop += 1; // what was lost before the subscription is not sent again
        reliable.publish(message("/r1/listener:/imu", "message_age", stop, FIGURES)).unwrap();
        best_effort.publish(message("/r2/listener:/imu", "message_age", stop, FIGURES)).unwrap();
        other.publish(message("/listener:/imu", "message_age", stop, FIGURES)).unwrap();
        series.with("message_age_mean").count() == 2
    });
    assert_eq!(both.with(r#"mean_seconds{node="/r1/listener""#).count(), 1);
    assert_eq!(both.with(r#"mean_seconds{node="/r2/listener""#).count(), 1);
    assert_eq!(node.count_subscriptions("/diagnostics"), Ok(0));
}

#[test]
fn an_exporter_has_the_nodes_of_its_robot_only() {
    let domain = domain();
    let arguments = ["--include", "/r1/**", "--exclude", "/r1/debug", "--classic-buckets", "0.001,0.003"];
    let exporter = Exporter::start(&arguments, domain);
    let robot = Robot::start();
    for node in ["/r2/camera", "/r1/debug", "/r1/camera"] {
        robot.publish(&format!("{node}:/imu"), "message_age", 100, FIGURES);
    }
    let series = exporter.scrape_until("three windows", |series| {
        let excluded = series.get(r#"exporter_messages_refused_total{reason="excluded"}"#);
        excluded == Some(2.0) && series.get(r#"exporter_messages_accepted_total{kind="window"}"#) == Some(1.0)
    });
    assert_eq!(series.with("message_age_mean").count(), 1);
    let mut samples = rclrs_topic_statistics::Distribution::default();
    [0.5, 2.0, 9.0].iter().for_each(|sample| assert!(samples.accept(*sample)));
    robot.publish_distribution("/r1/camera:/imu", "message_age", 100, &samples);
    let bucket = |le: &str| {
        let labels = format!("node=\"/r1/camera\",topic=\"/imu\",kind=\"subscription\",le=\"{le}\"");
        format!("message_age_distribution_seconds_bucket{{{labels}}}")
    };
    exporter.scrape_until("classic buckets", |series| {
        [("0.001", 1.0), ("0.003", 2.0), ("+Inf", 3.0)]
            .iter()
            .all(|(le, count)| series.get(&bucket(le)) == Some(*count))
    });
}

#[test]
fn signals_end_it_and_wrong_options_do() {
    use std::process::Command;
    use test_support::{command, program, Process};
    let domain = domain();
    for signal in ["INT", "TERM"] {
        let mut exporter = Exporter::start(&[], domain);
        exporter.process.signal(signal);
        assert!(exporter.process.wait().success(), "{signal}");
    }
    let run = |arguments: &[&str]| {
        let mut command: Command = command(program("exporter"), arguments, domain);
        let output = command.stderr(std::process::Stdio::piped());
        let mut process = Process::spawn(output);
        let errors = test_support::lines(process.errors());
        (process.wait().code(), errors.iter().collect::<Vec<_>>().join("\n"))
    };
    let taken = Exporter::start(&[], domain);
    for (arguments, code, text) in [
        (vec!["--listen", "nowhere"], 2, "invalid value 'nowhere'"),
        (vec!["--ros-args", "-p", "listen:=nowhere"], 1, "it has to be an address and a port"),
        (vec!["--ros-args", "-p", "max_series:=0"], 1, "it has to be a whole number from 1"),
        (vec!["--ros-args", "-p", "include:=['a b']"], 1, "it has to be names or patterns of nodes"),
        (vec!["--ros-args", "-p", "classic_buckets:='2,1'"], 1, "it has to be at most 50 numbers of seconds"),
        (vec!["--listen", "no-such-host.invalid:0"], 1, "Cannot listen at no-such-host.invalid:0"),
        (vec!["--listen", "127.0.0.1:0", "--ros-args", "-p", "statistics_topics:=['a b']"], 1, "a b"),
        (vec!["--listen", &taken.address.to_string()], 1, "Cannot listen at"),
    ] {
        let (status, errors) = run(&arguments);
        assert_eq!(status, Some(code), "{arguments:?}: {errors}");
        assert!(errors.contains(text), "{arguments:?}: {errors}");
    }
}

#[test]
fn a_signal_while_it_starts_ends_it() {
    use std::{fs::File, io::Write, process::Command};
    use test_support::{command, program, Process};
    // It reads its parameters before it creates its node. It waits for them at a pipe.
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("parameters.yaml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let arguments = ["--ros-args", "-p", "listen:=127.0.0.1:0", "--params-file", pipe.to_str().unwrap()];
    let mut exporter = Process::spawn(&mut command(program("exporter"), &arguments, domain()));
    let mut parameters = None;
    wait_for("the reader of the parameters", || {
        use rustix::fs::{open, Mode, OFlags};
        parameters = open(&pipe, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()).ok();
        parameters.is_some()
    });
    exporter.signal("TERM");
    let mut parameters = File::from(parameters.unwrap());
    parameters.write_all(b"/**: {ros__parameters: {max_series: 1000}}\n").unwrap();
    drop(parameters);
    assert_eq!(exporter.wait().code(), Some(0));
}
