// SPDX-License-Identifier: Apache-2.0

//! Subscribes to the talker's topics with statistics. The statistics are published on `/statistics` once per second.
//!
//! ROS parameters: `callback_duration` (duration of the callback of `imu` in seconds, default 0.0) shows the effect of
//! a slow callback on the ages. `metrics` are the names of the metrics to measure (default: the two metrics of rclcpp).
//! The parameters are read at the start:
//!
//! ```text
//! listener --ros-args -p callback_duration:=0.05 -p metrics:="[message_age, receive_to_callback_ms]"
//! ```

use std::{error::Error, sync::Arc, time::Duration};

use rclrs::*;
use rclrs_topic_statistics::{Metric, NodeStatistics, StatisticsOptions};
use ros_env::{sensor_msgs::msg::Imu, std_msgs::msg::String as StringMsg};

fn main() -> Result<(), Box<dyn Error>> {
    let until_signal = rclrs_topic_statistics_examples::until_signal()?;
    let mut executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("listener")?;
    let callback_duration = node
        .declare_parameter("callback_duration")
        .default(0.0)
        .range(ParameterRange { lower: Some(0.0), upper: Some(60.0), step: None })
        .description("Duration of the callback of imu in seconds")
        .read_only()?;
    let callback_duration = Duration::from_secs_f64(callback_duration.get());

    let metrics: Arc<[Arc<str>]> = node
        .declare_parameter("metrics")
        .default_string_array([Metric::MessageAge.name(), Metric::MessagePeriod.name()])
        .description("Names of the metrics to measure")
        .read_only()?
        .get();
    let metrics = metrics.iter().map(|name| name.parse()).collect::<Result<Vec<Metric>, _>>()?;

    let statistics = NodeStatistics::with_options(&node, StatisticsOptions::new().metrics(metrics))?;
    let logger = node.logger().clone();
    let _imu = statistics.create_subscription("imu".keep_last(10), move |message: Imu| {
        log_info!(logger.once(), "Receiving imu in the frame {}", message.header.frame_id);
        if !callback_duration.is_zero() {
            std::thread::sleep(callback_duration); // represents work
        }
    })?;
    let logger = node.logger().clone();
    let _chatter = statistics.create_subscription(
        "chatter".keep_last(10),
        move |message: StringMsg, info: MessageInfo| {
            log_info!(
                logger.once(),
                "Receiving {:?}, number {}",
                message.data,
                info.publication_sequence_number
            );
        },
    )?;

    executor.spin(until_signal).first_error()?;
    Ok(())
}
