// SPDX-License-Identifier: Apache-2.0

//! The parts of a delay show the cause: the driver, the network or the callback.

use test_support::Metric as Published;

use crate::support::*;

const DELAY: Duration = Duration::from_millis(500);

fn is_delayed(milliseconds: f64) -> bool {
    assert!(milliseconds < 250.0 || (500.0..5000.0).contains(&milliseconds), "{milliseconds} ms");
    milliseconds >= 500.0
}

#[test]
fn the_parts_of_a_delay_show_its_cause() {
    let lacks_reception = middleware::lacks_reception_timestamps("the parts of a delay");
    let (executor, node, statistics) = measured("delayed", every(100).metrics(Metric::OF_SUBSCRIPTIONS));
    // The message with this number has a slow callback.
    let slow = |message: Imu| {
        if message.linear_acceleration.x == 1.0 {
            thread::sleep(DELAY);
        }
    };
    let measured = statistics.create_subscription("imu".keep_last(100), slow).unwrap();
    let talker = node.create_publisher::<Imu>("imu".keep_last(100)).unwrap();
    let _spinning = Spinning::start(executor);
    wait_for_subscriptions(&talker, 1);
    let (network, waiting) = match lacks_reception {
        true => (Metric::SourceToCallback, Metric::SourceToCallback),
        false => (Metric::SourceToReceive, Metric::ReceiveToCallback),
    };
    let all_windows = collect(measured.statistics().watch());
    // Publishes messages with these stamps and numbers. Returns their windows.
    let publish = |messages: &[(Duration, f64)]| -> Windows {
        let windows = collect(measured.statistics().watch());
        for (age, number) in messages {
            let mut message = imu(*age);
            message.linear_acceleration.x = *number;
            talker.publish(message).unwrap();
        }
        wait_for("windows", || samples(&windows, Metric::MessageAge) == messages.len() as u64);
        windows
    };
    let late = |windows: &Windows, parts: [Metric; 3]| parts.map(|part| is_delayed(largest(windows, part)));
    let parts = [Metric::HeaderToSource, network, waiting];
    let driver = publish(&[(DELAY, 0.0)]);
    assert_eq!(late(&driver, parts), [true, false, false], "the driver waited after it set the stamp");
    let callback = publish(&[(Duration::ZERO, 1.0), (Duration::ZERO, 0.0)]);
    assert_eq!(late(&callback, parts), [false, lacks_reception, true], "a callback was slow");
    assert!(largest(&callback, Metric::CallbackDuration) >= 500.0);

    let mut ways = vec![vec![Metric::HeaderToSource, Metric::SourceToCallback]];
    if !lacks_reception {
        ways.push(vec![Metric::HeaderToSource, Metric::SourceToReceive, Metric::ReceiveToCallback]);
    }
    for window in all_windows.lock().unwrap().iter().filter(|window| window.count > 0) {
        let [whole, age] =
            [Metric::HeaderToCallback, Metric::MessageAge].map(|metric| window.get(metric).unwrap());
        assert_eq!((whole.average, whole.sample_count), (age.average, age.sample_count));
        for way in &ways {
            let parts = way.iter().map(|part| window.get(*part).unwrap());
            let sum: f64 = parts.clone().map(|part| part.average).sum();
            assert!(parts.clone().all(|part| part.sample_count == whole.sample_count), "{window:?}");
            assert!((sum - whole.average).abs() < 1e-6, "{way:?} add up to the whole: {window:?}");
        }
    }

    // A process that is stopped receives its messages late.
    let mut reader = Reader::start(domain());
    let metrics = format!("metrics:=[header_to_source_ms, {network}]");
    let listener = Process::start(program("listener"), &["--ros-args", "-p", &metrics], domain());
    wait_for_subscriptions(&talker, 2);
    let count = |metrics: &[Published]| {
        windows_of(metrics, "/listener:/imu", network.name()).map(Published::count).sum::<f64>()
    };
    reader.read_until("windows", |metrics| {
        windows_of(metrics, "/listener:/imu", network.name()).next().is_some()
    });
    listener.signal("STOP");
    (0..10).for_each(|_| talker.publish(imu(Duration::ZERO)).unwrap());
    thread::sleep(2 * DELAY); // this stop of the process is the fault under test
    listener.signal("CONT");
    reader.read_until("messages of the stopped process", |metrics| count(metrics) == 10.0);
    let late = |part: Metric| {
        let windows = reader.windows("/listener:/imu", part.name());
        is_delayed(windows.iter().map(Published::maximum).fold(f64::NAN, f64::max))
    };
    assert_eq!([late(Metric::HeaderToSource), late(network)], [false, true]);
}
