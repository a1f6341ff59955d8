// SPDX-License-Identifier: Apache-2.0

//! The parts of a delay show the cause: the driver, the network or the callback.

use test_support::Metric as Published;

use crate::support::*;

fn is_delayed(milliseconds: f64) -> bool {
    assert!(milliseconds < 250.0 || (500.0..5000.0).contains(&milliseconds), "{milliseconds} ms");
    milliseconds >= 500.0
}

#[test]
fn the_parts_of_a_delay_show_its_cause() {
    let lacks_reception = middleware::lacks_reception_timestamps("the parts of a delay");
    let (executor, node, statistics) = measured("delayed", every(100).metrics(Metric::OF_SUBSCRIPTIONS));
    // The callback is slow only for messages with the acceleration 1.
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
    // Publishes messages whose stamps have these ages, with these accelerations. Returns the windows of the messages.
    let publish = |messages: &[(Duration, f64)]| -> Windows {
        let windows = Windows::collect(measured.statistics().watch());
        for (age, number) in messages {
            let mut message = imu(*age);
            message.linear_acceleration.x = *number;
            talker.publish(message).unwrap();
        }
        wait_for("windows", || windows.total(Metric::MessageAge) == messages.len() as u64);
        windows
    };
    let late = |windows: &Windows, parts: [Metric; 3]| parts.map(|part| is_delayed(windows.most(part)));
    let parts = [Metric::HeaderToSource, network, waiting];
    let driver = publish(&[(DELAY, 0.0)]);
    assert_eq!(late(&driver, parts), [true, false, false], "the driver waited after it set the stamp");
    let callback = publish(&[(Duration::ZERO, 1.0), (Duration::ZERO, 0.0)]);
    assert_eq!(late(&callback, parts), [false, lacks_reception, true], "a callback was slow");
    assert!(callback.most(Metric::CallbackDuration) >= 500.0);

    // If a process is stopped by a signal, it receives its messages late. The metric of the network's delay must show
    // this delay.
    let mut reader = Reader::start(domain());
    let metrics = format!("metrics:=[header_to_source_ms, {network}]");
    let listener = Process::start(program("listener"), &["--ros-args", "-p", &metrics], domain());
    wait_for_subscriptions(&talker, 2);
    let windows = |read: &[Published]| -> Vec<Published> {
        windows_of(read, "/listener:/imu", network.name()).cloned().collect()
    };
    reader.read_until("windows", |read| !windows(read).is_empty());
    listener.signal("STOP");
    (0..10).for_each(|_| talker.publish(imu(Duration::ZERO)).unwrap());
    thread::sleep(2 * DELAY); // how long the process is stopped
    listener.signal("CONT");
    reader.read_until("messages of the stopped process", |read| {
        windows(read).iter().map(Published::count).sum::<f64>() == 10.0
    });
    let late = |part: Metric| {
        let windows = reader.windows("/listener:/imu", part.name());
        is_delayed(windows.iter().map(Published::maximum).fold(f64::NAN, f64::max))
    };
    assert_eq!([late(Metric::HeaderToSource), late(network)], [false, true]);
}
