// SPDX-License-Identifier: Apache-2.0

//! A bridge to a simulator. The bridge reads the sensors of a simulated car, publishes their data, and forwards control
//! commands to the car. Each remote call is timed, and each publisher and the subscription is measured. The statistics
//! are on `/statistics` and in a table in the log.
//!
//! The example needs no real simulator: each remote call only sleeps for some milliseconds. ROS parameter: `slow_call`
//! (additional seconds of the call `get_image/right`, default 0.0). The table shows the slow call:
//!
//! ```text
//! bridge --ros-args -p slow_call:=0.05
//! ```

use std::{error::Error, time::Duration};

use rclrs::*;
use rclrs_topic_statistics::{NodeStatistics, NodeStatisticsOptions, StatsPublisher, Stopwatch};
use ros_env::{
    builtin_interfaces::msg::Time,
    sensor_msgs::msg::{Image, Imu, JointState, Joy, NavSatFix, PointCloud2},
    std_msgs::msg::Header,
};

const LIDARS: [&str; 2] = ["front", "rear"];
const CAMERAS: [&str; 2] = ["left", "right"];

/// Simulates a remote call: sleeps for the time of the round trip.
fn call(milliseconds: u64) -> Result<(), Box<dyn Error + Send + Sync>> {
    std::thread::sleep(Duration::from_millis(milliseconds));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let until_signal = rclrs_topic_statistics_examples::until_signal()?;
    let mut executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("bridge")?;
    let slow_call = node
        .declare_parameter("slow_call")
        .default(0.0)
        .range(ParameterRange { lower: Some(0.0), upper: Some(60.0), step: None })
        .description("Additional duration of the call get_image/right in seconds")
        .read_only()?;
    let slow_call = Duration::from_secs_f64(slow_call.get());
    let statistics = NodeStatistics::with_options(&node, NodeStatisticsOptions::new().log_table(true))?;

    // Each sensor is read on a separate worker, so that a slow call does not delay the reading of other sensors.
    let mut running = vec![];
    let mut poll =
        |rate: u64, mut read: Box<dyn FnMut(Header) -> CallResult + Send + Sync>| -> Result<(), RclrsError> {
            let (clock, logger) = (node.get_clock(), node.logger().clone());
            let period = Duration::from_secs(1) / rate as u32;
            running.push(node.create_worker(()).create_timer_repeating(period, move |_: &mut ()| {
                let now = clock.now().nsec;
                let stamp = Time { sec: (now / 1_000_000_000) as i32, nanosec: (now % 1_000_000_000) as u32 };
                if let Err(error) = read(Header { stamp, frame_id: "car".to_owned() }) {
                    log_warn!(
                        logger.throttle(Duration::from_secs(1)),
                        "A sensor could not be read or published: {error}"
                    );
                }
            })?);
            Ok(())
        };

    let (stopwatch, joints) =
        (statistics.create_stopwatch("get_car_state"), statistics.create_publisher("joint_states")?);
    poll(100, Box::new(move |header| get_car_state(&stopwatch, &joints, header)))?;
    let (stopwatch, imu) =
        (statistics.create_stopwatch("get_imu"), statistics.create_publisher("imu".keep_last(10))?);
    poll(100, Box::new(move |header| get_imu(&stopwatch, &imu, header)))?;
    let (stopwatch, gps) = (statistics.create_stopwatch("get_gps"), statistics.create_publisher("gps")?);
    poll(10, Box::new(move |header| get_gps(&stopwatch, &gps, header)))?;

    let lidar = statistics.create_publisher("lidar".keep_last(2))?;
    for stopwatch in statistics.create_stopwatches("get_lidar_data", LIDARS) {
        let lidar = lidar.clone();
        poll(20, Box::new(move |header| get_lidar_data(&stopwatch, &lidar, header)))?;
    }
    let image = statistics.create_publisher("image".keep_last(2))?;
    for (stopwatch, camera) in statistics.create_stopwatches("get_image", CAMERAS).into_iter().zip(CAMERAS) {
        let (image, longer) = (image.clone(), if camera == "right" { slow_call } else { Duration::ZERO });
        poll(20, Box::new(move |header| get_image(&stopwatch, &image, longer, header)))?;
    }

    let (stopwatch, logger) = (statistics.create_stopwatch("set_car_controls"), node.logger().clone());
    let _commands = statistics.create_subscription("control_command".keep_last(1), move |_: Joy| {
        if let Err(error) = stopwatch.time(|| call(1)) {
            log_warn!(
                logger.throttle(Duration::from_secs(1)),
                "A control command could not be forwarded: {error}"
            );
        }
    })?;

    executor.spin(until_signal).first_error()?;
    Ok(())
}

/// The result of a remote call and of the publication of its data. The stopwatch also times calls that fail.
type CallResult = Result<(), Box<dyn Error + Send + Sync>>;

fn get_car_state(stopwatch: &Stopwatch, joints: &StatsPublisher<JointState>, header: Header) -> CallResult {
    stopwatch.time(|| call(1))?;
    Ok(joints.publish(JointState { header, ..Default::default() })?)
}

fn get_imu(stopwatch: &Stopwatch, imu: &StatsPublisher<Imu>, header: Header) -> CallResult {
    stopwatch.time(|| call(1))?;
    Ok(imu.publish(Imu { header, ..Default::default() })?)
}

fn get_gps(stopwatch: &Stopwatch, gps: &StatsPublisher<NavSatFix>, header: Header) -> CallResult {
    stopwatch.time(|| call(2))?;
    Ok(gps.publish(NavSatFix { header, ..Default::default() })?)
}

fn get_lidar_data(stopwatch: &Stopwatch, lidar: &StatsPublisher<PointCloud2>, header: Header) -> CallResult {
    let points = {
        let _running = stopwatch.start();
        call(5)?;
        vec![0; 30_000]
    };
    Ok(lidar.publish(PointCloud2 { header, data: points, ..Default::default() })?)
}

fn get_image(
    stopwatch: &Stopwatch,
    image: &StatsPublisher<Image>,
    longer: Duration,
    header: Header,
) -> CallResult {
    let pixels = {
        let _running = stopwatch.start();
        call(8)?;
        std::thread::sleep(longer);
        vec![0; 100_000]
    };
    Ok(image.publish(Image { header, data: pixels, ..Default::default() })?)
}
