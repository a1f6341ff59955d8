// SPDX-License-Identifier: Apache-2.0

//! `/diagnostics` shows each fault of a real topic, and the end of the fault.

use crate::support::*;

/// Waits for a status of the subscription that contains this text, in its message or in its value `failing`.
fn wait_for_status(reader: &Program, level: Level, text: &str) -> Value {
    let (started, mut last) = (Instant::now(), Value::Null);
    loop {
        assert!(started.elapsed() < LIMIT, "no {level} with {text:?} after {last:#}");
        let line = reader.read(&format!("{level} with {text:?} after {last:#}"));
        last = serde_json::from_str(&line).unwrap();
        let is_it = |status: &&Value| {
            let texts = [&status["message"], &status["values"]["failing"]];
            status["name"] == "listener: /imu"
                && status["level"] == level as u8
                && texts.iter().any(|found| found.as_str().is_some_and(|found| found.contains(text)))
        };
        if let Some(status) = last["status"].as_array().unwrap().iter().find(is_it) {
            return status.clone();
        }
    }
}

#[test]
fn diagnostics_show_each_fault_and_its_end() {
    let domain = domain();
    let options = NodeStatisticsOptions::new().statistics(every(200)).hardware_id("imu_7");
    let (executor, node, statistics) = measured("listener", options);
    assert_eq!(node.count_publishers("/diagnostics").unwrap(), 0, "off without conditions");
    let expected = Expectations::new()
        .warn_unless("rate>=4 age<2s lost=0".parse().unwrap())
        .error_unless("rate>=2".parse().unwrap())
        .first_message_within(Duration::from_millis(900))
        .stale_after(Duration::from_secs(5));
    let imu = "/imu".keep_last(1).statistics(every(200).expect(expected));
    // The queue has room for one message, so a burst overflows the queue. Other messages are 50 ms apart.
    let imu = statistics.create_subscription(imu, |_: Imu| thread::sleep(Duration::from_millis(1))).unwrap();
    let health = imu.statistics().health();
    assert_eq!((health.borrow().window, &health.borrow().cause), (None, &Cause::NoMessageYet));
    let reader = Program::start("diagnostics.py", &[], domain);
    let _spinning = Spinning::start(executor);

    let status = wait_for_status(&reader, Level::Stale, "no message yet, since");
    assert_eq!(status["hardware_id"], "imu_7");
    let mut publisher = Program::start("unhealthy.py", &[], domain);
    let status = wait_for_status(&reader, Level::Ok, "as expected, since");
    let value = |status: &Value, key: &str| -> f64 {
        status["values"][key].as_str().unwrap_or_else(|| panic!("{key}: {status:#}")).parse().unwrap()
    };
    let rate = value(&status, "Actual frequency (Hz)");
    assert!(rate > 0.0 && rate == value(&status, "frame_rate_node"), "{status:#}");
    assert_eq!(value(&status, "Minimum acceptable frequency (Hz)"), 4.0);
    assert_eq!(value(&status, "Latest acceptable timestamp delay:"), 2.0);
    assert!((0.0..2000.0).contains(&value(&status, "message_age.average")), "{status:#}");
    assert_eq!(status["values"]["warn_unless"], "rate>=4 age<2s lost=0");
    assert_eq!(status["values"]["failing"], Value::Null);

    for (fault, level, text, failing, end) in [
        ("rate 0.5", Level::Error, "Hz, expected at least 2, since", "rate>=2 (", "rate 20"),
        ("age 20", Level::Warn, "ms, expected below 2000, since", "age<2s (", "age 0"),
        ("burst 20", Level::Warn, "lost=0 (", "lost=0 (", "burst 1"),
    ] {
        publisher.send(fault);
        let status = wait_for_status(&reader, level, text);
        assert!(status["values"]["failing"].as_str().unwrap().contains(failing), "{status:#}");
        if fault.starts_with("burst") {
            assert!(value(&status, "total_dropped_frames") > 0.0, "{status:#}");
        }
        publisher.send(end);
        wait_for_status(&reader, Level::Ok, "as expected");
    }
    publisher.end();
    wait_for_status(&reader, Level::Stale, "no message any more, since");
    wait_for("the same in the process", || health.borrow().level == Level::Stale);
}
