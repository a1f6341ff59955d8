// SPDX-License-Identifier: Apache-2.0

//! Publishes `sensor_msgs/Imu` or an `Image` of 1 MB on `load` at a rate, until it is ended:
//! `bench_talker imu|image HZ`. 0 Hz means as fast as possible.

use std::{
    error::Error,
    time::{Duration, Instant},
};

use rclrs::*;
use ros_env::{
    builtin_interfaces::msg::Time,
    sensor_msgs::msg::{Image, Imu},
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, topic_type, rate] = &arguments[..] else { return Err("bench_talker imu|image HZ".into()) };
    let rate: f64 = rate.parse()?;
    let executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("bench_talker")?;
    if topic_type == "image" {
        let publisher = node.create_publisher::<Image>("load".keep_last(10))?;
        let mut image = Image { data: vec![0; 1_000_000], ..Image::default() };
        pace(rate, |stamp| {
            image.header.stamp = stamp;
            publisher.publish(&image)
        })
    } else {
        let publisher = node.create_publisher::<Imu>("load".keep_last(10))?;
        let mut imu = Imu::default();
        pace(rate, |stamp| {
            imu.header.stamp = stamp;
            publisher.publish(&imu)
        })
    }
}

/// Publishes at a rate. The time of each message does not depend on the duration of earlier ones.
fn pace(rate: f64, mut publish: impl FnMut(Time) -> Result<(), RclrsError>) -> Result<(), Box<dyn Error>> {
    let (started, clock) = (Instant::now(), Clock::system());
    for number in 0_u64.. {
        if rate > 0.0 {
            let due = Duration::from_secs_f64(number as f64 / rate);
            std::thread::sleep(due.saturating_sub(started.elapsed()));
        }
        publish(clock.now().to_ros_msg()?)?;
    }
    Ok(())
}
