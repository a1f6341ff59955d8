// SPDX-License-Identifier: Apache-2.0

//! Publishes messages on real topics, and checks the resulting time series.

use std::{
    fs::File,
    io::Write,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use rclrs::IntoPrimitiveOptions;
use rclrs_topic_statistics::Distribution;
use ros_env::statistics_msgs::msg::MetricsMessage;
use test_support::{command, domain, lines, program, wait_for, Process};
use topic_statistics_observe::ros::testing::status;

use crate::{
    common::{ages, get, health, losses, window, Series, FIGURES},
    process::Exporter,
    robot::Robot,
};

#[test]
fn each_kind_of_message_becomes_time_series() {
    let exporter = Exporter::start(&["--classic-buckets", "0.001,0.003"], domain());
    let robot = Robot::start();
    for stop in [100, 101, 102] {
        robot.publish("/listener:/imu", "message_age", stop, FIGURES);
        robot.publish("/listener:/imu", "message_period", stop, [20.0, 30.0, 10.0, 49.0, 2.0]);
    }
    // The same window is published again, as if a relay repeated it.
    robot.publish("/listener:/imu", "message_age", 101, FIGURES);
    robot.publish("/listener:/imu", "publication_seq_gap", 102, [0.06, 2.0, 0.0, 50.0, 0.3]);
    robot.publish("cpp_listener", "message_age", 102, FIGURES);
    // These names and numbers could break the output formats.
    let hostile = "/x\"} 1\nfoo{a=\"\\:/y\u{1b}[2J\u{202e}\"\\";
    robot.publish(hostile, "message_age", 100, FIGURES);
    robot.publish("/listener:/imu", "up{}\n# EOF", 100, FIGURES);
    robot.publish("/foreign:/imu", "message_age", 100, [2.0, f64::INFINITY, 1.0, 50.0, 0.5]);
    let mut samples = Distribution::default();
    [0.5, 2.0, 9.0].iter().for_each(|sample| assert!(samples.accept(*sample)));
    robot.distributions.publish(ages("/listener:/imu", 102, &samples)).unwrap();
    robot.losses.publish(losses("/listener", "/imu", 3)).unwrap();
    robot.losses.publish(losses("/listener", "/imu", 4)).unwrap();
    robot.publish_status(health("/listener:/imu", 2, "rate>=50", 0));
    robot.publish_status(status("/listener: Topic statistics", 1, &[]));

    let imu = r#"node="/listener",topic="/imu""#;
    let bucket = |le: &str| {
        format!("message_age_distribution_seconds_bucket{{{imu},kind=\"subscription\",le=\"{le}\"}}")
    };
    let hostile = r#"{node="/x\"} 1\\u{a}foo{a=\"\\",topic="/y\\u{1b}[2J\\u{202e}\"\\",kind="subscription"}"#;
    let of_imu = |name: &str| format!("{name}{{{imu},kind=\"subscription\"}}");
    let expected = [
        (of_imu("message_age_mean_seconds"), 0.002),
        (of_imu("message_age_min_seconds"), 0.001),
        (of_imu("message_age_max_seconds"), 0.004),
        (of_imu("message_age_stddev_seconds"), 0.0005),
        (of_imu("message_age_seconds_count"), 150.0),
        (of_imu("message_age_seconds_sum"), 0.3),
        (of_imu("message_period_seconds_count"), 147.0),
        (of_imu("receive_rate_hertz"), 50.0),
        (of_imu("messages_received_total"), 150.0),
        (of_imu("messages_lost_total"), 3.0),
        (format!("windows_total{{{imu}}}"), 3.0),
        (format!("messages_reported_lost_total{{{imu}}}"), 7.0),
        (bucket("0.001"), 1.0),
        (bucket("0.003"), 2.0),
        (bucket("+Inf"), 3.0),
        (r#"message_age_mean_seconds{node="cpp_listener",kind="subscription"}"#.to_owned(), 0.002),
        (format!("message_age_mean_seconds{hostile}"), 0.002),
        (format!(r#"other_mean{{{imu},metric="up{{}}\\u{{a}}# EOF",unit="seconds"}}"#), 0.002),
        (r#"diagnostic_level{name="/listener: Topic statistics"}"#.to_owned(), 1.0),
        (format!("health_level{{{imu},judge=\"listener\"}}"), 2.0),
        (format!("expected_rate_hertz{{{imu},judge=\"listener\",bound=\"lower\",level=\"error\"}}"), 50.0),
        (r#"exporter_messages_refused_total{reason="duplicate"}"#.to_owned(), 1.0),
        (r#"exporter_messages_refused_total{reason="invalid"}"#.to_owned(), 1.0),
    ];
    // A counter of losses is 0 in its first scrape.
    let last = |name: &str| of_imu("messages_lost_total") == name || name.starts_with("messages_reported");
    for (name, value) in &expected {
        exporter.scrape_until(&format!("{name} of {value}"), |series| {
            let is = series.get(name);
            assert!(last(name) || is.is_none_or(|is| is <= value + 1e-9), "{name} is {is:?}");
            is.is_some_and(|is| (is - value).abs() <= 1e-12 * value)
        });
    }
    assert_eq!(Series::scrape(exporter.address).count("/foreign"), 0);
}

#[test]
fn options_choose_topics_and_nodes_and_bound_series() {
    let arguments = "--statistics-topics /statistics,/r2/statistics --include /r1/**,/r2/**,/mark --exclude \
                     /r1/debug --ros-args -p keep_windows:=2 -p max_series:=60";
    let arguments: Vec<_> = arguments.split_whitespace().collect();
    let exporter = Exporter::start(&arguments, domain());
    let robot = Robot::start();
    // The exporter also receives messages of a "best effort" publisher. Windows are published repeatedly, because
    // windows that are published before the exporter subscribes again are lost.
    let best_effort = robot.node.create_publisher::<MetricsMessage>("/r2/statistics".best_effort()).unwrap();
    let mut stop = 100;
    exporter.scrape_until("a window by best effort", |series| {
        stop += 1;
        best_effort.publish(window("/r2/listener:/imu", "message_age", stop, FIGURES)).unwrap();
        series.count("mean_seconds{node=\"/r2/listener\"") == 1
    });
    for node in ["/r1/debug", "/r3/camera", "/r1/camera"] {
        robot.publish(&format!("{node}:/imu"), "message_age", 100, FIGURES);
    }
    let excluded = r#"exporter_messages_refused_total{reason="excluded"}"#;
    let series = exporter.scrape_until("excluded nodes", |series| {
        series.get(excluded) == Some(2.0) && series.count("mean_seconds{node=\"/r1/camera\"") == 1
    });
    assert_eq!(series.count("/r1/debug") + series.count("/r3/camera"), 0);
    for node in 0..20 {
        robot.publish(&format!("/r1/node_{node}:/imu"), "message_age", 100, FIGURES);
    }
    let refused = r#"exporter_messages_refused_total{reason="series_limit"}"#;
    let series = exporter.scrape_until("refused", |series| series.get(refused) >= Some(10.0));
    assert!(series.count("node=\"/r") <= 60, "{series:?}");
    exporter.wait_for_line("max_series");
    // The sources end, because no node publishes. After that, there is room for new sources.
    exporter.scrape_until("end of the sources", |series| series.count("node=\"/r") == 0);
    robot.publish("/r1/node_19:/imu", "message_age", 200, FIGURES);
    exporter.scrape_until("a new source", |series| series.count("/node_19") > 0);
}

#[test]
fn many_requests_do_not_starve_the_subscriptions() {
    let exporter = Exporter::start(&[], domain());
    let robot = Robot::start();
    let (address, stop) = (exporter.address, AtomicBool::new(false));
    let series = thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(get(address, "/metrics").status, 200);
                }
            });
        }
        for number in 0..3000 {
            let source = format!("/node:/topic_{}", number % 300);
            robot.publish(&source, "message_age", 100 + number / 300, FIGURES);
        }
        let all = r#"exporter_messages_accepted_total{kind="window"}"#;
        let series = exporter.scrape_until("all windows", |series| series.get(all) == Some(3000.0));
        stop.store(true, Ordering::Relaxed);
        series
    });
    let counts = series.0.iter().filter(|(name, _)| name.contains("message_age_seconds_count"));
    assert_eq!(counts.filter(|(_, count)| **count == 500.0).count(), 300);
}

#[test]
fn signals_end_it_and_wrong_options_do() {
    let domain = domain();
    for signal in ["INT", "TERM"] {
        let mut exporter = Exporter::start(&[], domain);
        exporter.process.signal(signal);
        assert!(exporter.process.wait().success(), "{signal}");
    }
    let taken = Exporter::start(&[], domain);
    let taken = format!("--listen {}", taken.address);
    for (arguments, code, text) in [
        ("--listen nowhere", 2, "invalid value 'nowhere'"),
        ("--ros-args -p listen:=nowhere", 1, "it has to be an address and a port"),
        ("--ros-args -p use_sim_time:=maybe", 1, "use_sim_time is \"maybe\": it has to be true or false"),
        ("--ros-args -p include:=[]", 1, "The parameter include is []"),
        ("--ros-args -p max_series:=0", 1, "it has to be a whole number from 1"),
        ("--ros-args -p include:=['[a']", 1, "it has to be names or patterns of nodes"),
        ("--ros-args -p classic_buckets:='2,1'", 1, "it has to be at most 50 numbers of seconds"),
        (
            "--ros-args -p classic_buckets:=0.01",
            1,
            "it has to be a string (-p \"classic_buckets:='...'\"): at most 50",
        ),
        ("--ros-args -p otlp_interval:=0", 1, "parameter otlp_interval is \"0\": it has to be a number of"),
        ("--ros-args -p otlp_headers:=secret", 1, "otlp_headers is not valid: it has to be name=value"),
        ("--otlp-endpoint x:4318", 2, "endpoint \"x:4318\" is no URL"),
        ("--otlp-endpoint http://me:secret@x", 2, "has a user or a password"),
        ("--ros-args -p otlp_endpoint:=ftp://x", 1, "endpoint \"ftp://x\" is no URL"),
        ("--otlp-protocol grpc", 2, "an agent beside the exporter does that"),
        ("--ros-args -p otlp_buffer_directory:=/x", 1, "an agent beside the exporter does that"),
        ("--listen no-such-host.invalid:0", 1, "Cannot listen at no-such-host.invalid:0"),
        ("--listen 127.0.0.1:0 --statistics-topics a-b", 2, "a-b"),
        (&taken, 1, "Cannot listen at"),
    ] {
        let arguments: Vec<_> = arguments.split(' ').collect();
        let mut command = command(program("exporter"), &arguments, domain);
        let mut process = Process::spawn(command.stderr(Stdio::piped()));
        let errors = lines(process.errors());
        let (status, errors) = (process.wait().code(), errors.iter().collect::<Vec<_>>().join("\n"));
        assert!(status == Some(code) && errors.contains(text), "{arguments:?}: {status:?} {errors}");
    }
}

#[test]
fn a_signal_while_it_starts_ends_it() {
    use rustix::fs::{open, Mode, OFlags};
    // The exporter reads its parameter file before it creates its node. The file is a pipe, so the exporter waits.
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("parameters.yaml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let arguments = ["--ros-args", "-p", "listen:=127.0.0.1:0", "--params-file", pipe.to_str().unwrap()];
    let mut exporter = Process::spawn(&mut command(program("exporter"), &arguments, domain()));
    let mut parameters = None;
    wait_for("the reader of the parameters", || {
        parameters = open(&pipe, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()).ok();
        parameters.is_some()
    });
    exporter.signal("TERM");
    let mut parameters = File::from(parameters.unwrap());
    parameters.write_all(b"/**: {ros__parameters: {max_series: 1000}}\n").unwrap();
    drop(parameters);
    assert_eq!(exporter.wait().code(), Some(0));
}
