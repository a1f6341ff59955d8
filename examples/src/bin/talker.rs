// SPDX-License-Identifier: Apache-2.0

//! Publishes `sensor_msgs/Imu`, with header stamps, on `imu`, and `std_msgs/String` on `chatter`.
//!
//! ROS parameters: `rate` (of each topic in Hz, default 10.0), `stamp_age` (age of the stamps in seconds, default 0.0),
//! `count` (number of messages on each topic after which the talker ends, default 0: no end). The parameters are read
//! at the start:
//!
//! ```text
//! talker --ros-args -p rate:=100.0
//! ```

use std::{
    error::Error,
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use rclrs::*;
use ros_env::{
    sensor_msgs::msg::Imu,
    std_msgs::msg::{Header, String as StringMsg},
};

fn main() -> Result<(), Box<dyn Error>> {
    let until_signal = rclrs_topic_statistics_examples::until_signal()?;
    let mut executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("talker")?;
    let rate = node
        .declare_parameter("rate")
        .default(10.0)
        .range(ParameterRange { lower: Some(0.1), upper: Some(10_000.0), step: None })
        .description("Messages per second on each topic")
        .read_only()?;
    let stamp_age = node
        .declare_parameter("stamp_age")
        .default(0.0)
        .range(ParameterRange { lower: Some(0.0), upper: Some(3600.0), step: None })
        .description("Age of the header stamps in seconds")
        .read_only()?;
    let count = node
        .declare_parameter("count")
        .default(0)
        .description("Number of messages on each topic after which the talker ends; 0 for no end")
        .read_only()?;

    let imu = node.create_publisher::<Imu>("imu".keep_last(10))?;
    let chatter = node.create_publisher::<StringMsg>("chatter".keep_last(10))?;
    let stamp_age = Duration::from_secs_f64(stamp_age.get());
    let limit = count.get();
    let sent = AtomicI64::new(0);
    let commands = executor.commands().clone();
    let clock = node.get_clock();
    let _timer = node.create_timer_repeating(Duration::from_secs_f64(1.0 / rate.get()), move || {
        let number = sent.fetch_add(1, Ordering::Relaxed) + 1;
        if limit > 0 && number > limit {
            commands.halt_spinning();
            return;
        }
        if let Ok(stamp) = (clock.now() - stamp_age).to_ros_msg() {
            let header = Header { stamp, frame_id: "imu_link".to_owned() };
            report(imu.publish(Imu { header, ..Imu::default() }));
        }
        report(chatter.publish(StringMsg { data: format!("Hello, world: {number}") }));
    })?;

    log_info!(node.logger(), "Publishing imu and chatter at {} Hz", rate.get());
    executor.spin(until_signal).first_error()?;
    Ok(())
}

fn report(published: Result<(), RclrsError>) {
    if let Err(error) = published {
        log_error!("talker", "A message could not be published: {error}");
    }
}
