// SPDX-License-Identifier: Apache-2.0

//! The example `bridge`: six timed calls, two of them vectors, five publishers and a subscription.

use std::sync::{
    atomic::{AtomicBool, Ordering},
    Arc,
};

use ros_env::sensor_msgs::msg::Joy;
use test_support::{domain, node, of, Process, Reader, Spinning};

#[test]
fn a_bridge_publishes_statistics_of_its_calls_publishers_and_subscription() {
    let domain = domain();
    let arguments = ["--ros-args", "-p", "slow_call:=0.03"];
    let (_bridge, log) = Process::start_logging(env!("CARGO_BIN_EXE_bridge"), &arguments, domain);
    let (executor, node) = node("driver", &[]);
    let commands = node.create_publisher::<Joy>("control_command").unwrap();
    let _spinning = Spinning::start(executor);
    let mut reader = Reader::start(domain);

    let done = Arc::new(AtomicBool::new(false));
    let driving = std::thread::spawn({
        let done = Arc::clone(&done);
        move || {
            while !done.load(Ordering::Relaxed) {
                commands.publish(Joy::default()).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        }
    });
    let calls = [
        ("get_car_state", 1.0),
        ("get_imu", 1.0),
        ("get_gps", 2.0),
        ("get_lidar_data/front", 5.0),
        ("get_lidar_data/rear", 5.0),
        ("get_image/left", 8.0),
        ("get_image/right", 38.0),
        ("set_car_controls", 1.0),
    ];
    let busy = |metrics: &[test_support::Metric], source: &str, metric: &str| {
        // Names of topics start with a slash, names of stopwatches do not.
        let slash = if metric == "duration_ms" { "" } else { "/" };
        of(metrics, &format!("/bridge:{slash}{source}"), metric).find(|window| window.count() >= 2.0).cloned()
    };
    let publishers = ["joint_states", "imu", "gps", "lidar", "image"];
    reader.read_until("window of everything", |metrics| {
        calls.iter().all(|(name, _)| busy(metrics, name, "duration_ms").is_some())
            && publishers.iter().all(|topic| busy(metrics, topic, "publish_period").is_some())
            && busy(metrics, "control_command", "message_period").is_some()
    });
    done.store(true, Ordering::Relaxed);
    driving.join().unwrap();

    for (name, least) in calls {
        let window = busy(&reader.metrics, name, "duration_ms").unwrap();
        assert!((least..least + 30.0).contains(&window.minimum()), "{name}: {window:?}");
    }
    let lines = std::iter::from_fn(|| log.recv_timeout(test_support::LIMIT).ok());
    let mut table = lines.skip_while(|line| !line.contains("Topic statistics of 1s:")).skip(1).take(100);
    assert!(table.next().unwrap().starts_with("name "));
    // A source that was created after the first window had begun is in the second table.
    assert!(table.any(|line| line.starts_with("/bridge:get_lidar_data/rear ")));
}
