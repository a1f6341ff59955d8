// SPDX-License-Identifier: Apache-2.0

//! Percentiles of the last minute, beside processes that know every sample; and bytes, beside a reader that counts
//! them.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use rclrs::IntoPrimitiveOptions;
use ros_env::std_msgs::msg::String as StringMessage;
use serde_json::Value;
use test_support::{domain, node, wait_for, Process, Program, LIMIT};

use crate::{
    output::wait_until_full,
    run::{command, Json},
    terminal::Terminal,
};

const SIMULATED: [&str; 3] = ["--ros-args", "-p", "use_sim_time:=true"];

/// The error of a distribution whose largest sample is 17 times its smallest one, at the scale 5.
const ERROR: f64 = 0.022;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// Asserts that each percentile is the sender's, up to the error.
fn assert_same(ours: &Value, exact: &Value) {
    assert_eq!(ours["count"], exact["count"], "{ours}");
    for quantile in ["p50", "p90", "p99", "p99_9"] {
        let (ours, exact) = (number(&ours[quantile]), number(&exact[quantile]));
        assert!((ours - exact).abs() <= exact * ERROR, "{quantile} {ours}, exactly {exact}");
    }
}

#[test]
fn the_percentiles_of_ages_are_those_of_the_senders_record() {
    let domain = domain();
    let mut sender = Program::start("percentiles.py", &[], domain);
    // Windows in which a busy machine has time for the monitor.
    let monitor = Json::with_period("1", &[&["imu", "warm"][..], &SIMULATED].concat(), domain);
    // Its clock runs, and its subscription of imu is matched.
    monitor.until("an age", |json| !json["metrics"]["message_age"]["mean"].is_null());
    monitor.until("silence", |json| json["topic"] == "/imu" && json["received"] == 0);
    let mut terminal = Terminal::start(&[&["imu", "warm"][..], &SIMULATED].concat(), domain);
    terminal
        .wait("an age", |text| text.lines().any(|line| line.contains("/warm") && line.contains(" 1.000 ")));

    // The late ones are in one window of three, or in two of four. The average of the p99 of each window would be below
    // 50 ms.
    let exact: Value = serde_json::from_str(&sender.request("block")).unwrap();
    assert!(number(&exact["p50"]) < 5.2 && number(&exact["p99"]) > 84.9, "{exact}");
    let until_ages = |count: u64| {
        monitor.until("ages", |json| {
            if json["topic"] != "/imu" {
                return false;
            }
            assert!(
                json["total"]["lost"].as_u64().is_none_or(|lost| lost == 0),
                "the test has lost messages: {json}"
            );
            json["last_minute"]["message_age"]["count"].as_u64() >= Some(count)
        })
    };
    let imu = until_ages(1000);
    assert_same(&imu["last_minute"]["message_age"], &exact);
    assert_eq!(imu["last_minute"]["message_age"]["unit"], "ms");

    let p99 = |text: &str| -> f64 {
        let row = text.lines().find(|line| line.contains("/imu ")).unwrap_or_default();
        row.split_whitespace().rev().nth(2).and_then(|p99| p99.parse().ok()).unwrap_or(f64::NAN)
    };
    terminal.wait("p99 in the list", |text| (p99(text) - number(&exact["p99"])).abs() < 85.0 * ERROR);
    terminal.press("g\rh");
    terminal.wait("histogram", |text| {
        text.contains("message_age in the last minute, ms: 1000 samples")
            && text.lines().any(|line| line.contains(" 980  98.0% ██"))
            && text.lines().any(|line| line.contains(" 20   2.0% "))
    });
    terminal.press("q");
    assert_eq!(terminal.end(), 0);

    // All of the last minute, and not only the last window.
    let exact: Value = serde_json::from_str(&sender.request("spread")).unwrap();
    let imu = until_ages(2000);
    assert_same(&imu["last_minute"]["message_age"], &exact);
}

#[test]
fn windows_that_nobody_reads_are_in_the_last_minute() {
    let domain = domain();
    let mut sender = Program::start("percentiles.py", &[], domain);
    let arguments = [&["--json", "imu", "warm"][..], &SIMULATED].concat();
    let mut child = command(&arguments, domain).stdout(Stdio::piped()).spawn().unwrap();
    let unread = child.stdout.take().unwrap();
    wait_until_full(&unread);
    let _monitor = Process::from(child);
    let exact: Value = serde_json::from_str(&sender.request("block")).unwrap();
    let sent = Instant::now();
    wait_for("the end of the windows", || sent.elapsed() >= Duration::from_secs(3));
    let lines = test_support::lines(unread);
    wait_for("1000 ages", || {
        let objects = lines.try_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap());
        let mut ages = objects.map(|object| object["last_minute"]["message_age"].clone());
        let all = ages.find(|ages| ages["count"].as_u64() >= Some(1000) && number(&ages["max"]) > 80.0);
        all.inspect(|all| assert_same(all, &exact)).is_some()
    });
}

#[test]
fn conditions_on_percentiles_wait_for_their_samples_and_decide() {
    let domain = domain();
    let mut sender = Program::start("percentiles.py", &[], domain);
    for (conditions, duration, status, expected) in [
        ("/imu: age.p99<100 /imu: age.p50<10 /imu: age.p99>50", "50", 0, ""),
        ("/imu: age.p99<50 /imu: age.p50<10", "12", 1, "/imu: age.p99<50 fails: age.p99 is 8"),
        (
            "/warm: age.p999<10",
            "12",
            1,
            "/warm: age.p999<10 fails: age.p999 is - (it needs 1000 samples in the last minute, and has ",
        ),
    ] {
        let arguments = [&["--require", conditions, "--duration", duration][..], &SIMULATED].concat();
        let child = command(&arguments, domain).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut monitor = Process::from(child);
        let errors = test_support::lines(monitor.errors());
        while monitor.status().is_none() {
            sender.request("spread");
        }
        let errors: Vec<String> = errors.iter().collect();
        assert_eq!(monitor.wait().code(), Some(status), "{conditions}: {errors:#?}");
        assert!(status == 0 || errors.iter().any(|line| line.contains(expected)), "{errors:#?}");
        assert!(errors.iter().all(|line| !line.contains("age.p50<10 fails")), "{errors:#?}");
    }
}

#[test]
fn the_percentiles_of_periods_are_those_of_all_windows_samples() {
    let domain = domain();
    let _talker = Process::start(test_support::program("talker"), &["--ros-args", "-p", "rate:=5.0"], domain);
    // The figures of up to three samples are enough to know each one.
    let samples_of = |window: &Value| {
        let [mean, min, max] = ["mean", "min", "max"].map(|figure| number(&window[figure]));
        match window["count"].as_u64().unwrap() {
            0 => Some(vec![]),
            1 => Some(vec![mean]),
            2 => Some(vec![min, max]),
            3 => Some(vec![min, 3.0 * mean - min - max, max]),
            _ => None, // The talker had no time.
        }
    };
    let compare = || -> Option<()> {
        let monitor = Json::start(&["imu"], domain);
        let (mut samples, mut stop): (Vec<f64>, _) = (vec![], None);
        let begun = Instant::now();
        while samples.len() < 105 {
            assert!(begun.elapsed() < LIMIT, "{} samples", samples.len());
            let window = monitor.until("a window of imu", |json| json["topic"] == "/imu");
            samples.extend(samples_of(&window["metrics"]["message_period"])?);
            samples.sort_by(f64::total_cmp);
            let ours = &window["last_minute"]["message_period"];
            let is_next = match &stop {
                Some(stop) => window["window_start"] == *stop,
                // Nothing was written before the first window, and the last minute has nothing else.
                None => ours["count"].as_u64().unwrap_or(0) == samples.len() as u64,
            };
            if !is_next {
                return None; // The monitor had no time to write a window.
            }
            stop = Some(window["window_stop"].clone());
            if samples.is_empty() {
                continue;
            }
            assert_eq!(ours["count"].as_u64().unwrap(), samples.len() as u64, "{window}");
            // Of any scale: at most 19 %, and 2.2 % while the largest is less than 31 times the smallest.
            let error = if samples[samples.len() - 1] < 31.0 * samples[0] { ERROR } else { 0.19 };
            for (name, per_mille) in [("p50", 500), ("p90", 900), ("p99", 990), ("p99_9", 999)] {
                let rank = (samples.len() * per_mille).div_ceil(1000);
                let (ours, exact) = (number(&ours[name]), samples[rank - 1]);
                if samples.len() * (1000 - per_mille) < 1000 {
                    assert!(ours.is_nan(), "{name} {ours} of {} samples", samples.len());
                } else {
                    assert!((ours - exact).abs() <= exact * error, "{name} {ours}, exactly {exact}");
                }
            }
        }
        Some(())
    };
    (0..5).find_map(|_| compare()).expect("all windows, of at most three samples");
}

#[test]
fn bytes_are_those_that_a_reader_of_serialized_messages_counts() {
    const TYPE: &str = "std_msgs/msg/String";
    let domain = domain();
    let topic = format!("/sent/{TYPE}");
    // Each time with a publisher of its own, whose messages are the only ones.
    let compare = || -> Option<()> {
        let reader = Program::start("sizes.py", &[TYPE], domain);
        let (_executor, node) = node("sender", &[]);
        let publisher = node
            .create_publisher::<StringMessage>(topic.as_str().keep_last(1000).reliable().transient_local())
            .unwrap();
        let monitor = Json::start(&[&topic], domain);
        let is_silent =
            |json: &Value| json["received"] == 0 && json["bytes"] == 0 && json["bandwidth"] == 0.0;
        let mut stop = monitor.until("silence", is_silent)["window_stop"].clone();
        let (mut published, mut received, mut bytes) = (0, 0, 0);
        let begun = Instant::now();
        while received < 300 {
            assert!(begun.elapsed() < LIMIT, "{received} of {published} messages");
            // In several windows.
            let last = (published + 40).min(300);
            for number in published..last {
                publisher.publish(StringMessage { data: "x".repeat(number * 7 % 1000) }).unwrap();
            }
            published = last;
            let window = monitor.until("a window", |json| json["window_stop"].is_i64());
            if window["window_start"] != stop || window["bytes"].is_null() {
                return None; // The monitor had no time to write a window, or to count the bytes of one.
            }
            stop = window["window_stop"].clone();
            let integer = |field: &str| window[field].as_u64().unwrap();
            let (of_window, nanoseconds) =
                (integer("bytes"), integer("window_stop") - integer("window_start"));
            (received, bytes) = (received + integer("received"), bytes + of_window);
            let per_second = of_window as f64 / (nanoseconds as f64 / 1e9);
            assert!((number(&window["bandwidth"]) - per_second).abs() <= 0.01 * per_second, "{window}");
        }
        let counted =
            (0..300).map(|_| reader.read("a message").rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
        assert_eq!((received, bytes), (300, counted.sum()), "messages and bytes");
        Some(())
    };
    (0..5).find_map(|_| compare()).expect("all windows");
}
