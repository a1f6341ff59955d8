// SPDX-License-Identifier: Apache-2.0

//! Watches the statistics of its own subscription to `imu`. Logs a warning when messages are too old or missing.
//!
//! ROS parameter: `age_limit` (in seconds, default 0.1). The parameter is read at the start:
//!
//! ```text
//! watchdog --ros-args -p age_limit:=0.05
//! ```

use std::{error::Error, sync::Arc};

use rclrs::*;
use rclrs_topic_statistics::{watch, Metric, NodeStatistics, WindowStatistics};
use ros_env::sensor_msgs::msg::Imu;

/// What the watchdog has found in a window: messages are in time, too old, or missing.
#[derive(Clone, Copy, PartialEq)]
enum Finding {
    Fresh,
    Late,
    Silent,
}

fn main() -> Result<(), Box<dyn Error>> {
    let until_signal = rclrs_topic_statistics_examples::until_signal()?;
    let mut executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("watchdog")?;
    let age_limit = node
        .declare_parameter("age_limit")
        .default(0.1)
        .range(ParameterRange { lower: Some(0.0), upper: Some(3600.0), step: None })
        .description("Maximum age of a message in seconds when its callback starts")
        .read_only()?;

    let statistics = NodeStatistics::new(&node)?;
    let imu = statistics.create_subscription("imu".keep_last(10), |_: Imu| {
        // Here a real node would use the message.
    })?;
    let watching =
        watch_over(node.logger().clone(), imu.topic_name(), age_limit.get() * 1e3, imu.statistics().watch());
    let _watching = executor.commands().run(watching);

    executor.spin(until_signal).first_error()?;
    Ok(())
}

/// Logs each change: messages are older than `limit` (in milliseconds), are missing, or are in time again.
async fn watch_over(
    logger: Logger,
    topic: String,
    limit: f64,
    mut windows: watch::Receiver<Option<Arc<WindowStatistics>>>,
) {
    let mut last = Finding::Fresh;
    while windows.changed().await.is_ok() {
        let window = windows.borrow_and_update().clone();
        let Some(age) = window.as_ref().and_then(|window| window.get(Metric::MessageAge)) else { continue };
        let finding = match age.maximum {
            maximum if maximum.is_nan() => Finding::Silent,
            maximum if maximum > limit => Finding::Late,
            _ => Finding::Fresh,
        };
        if finding == last {
            continue;
        }
        // Here a robot would react: slow down, or use another sensor.
        match finding {
            Finding::Late => log_warn!(
                &logger,
                "Messages on {topic} are up to {:.1} ms old; {limit:.1} ms are allowed",
                age.maximum
            ),
            Finding::Silent => log_warn!(&logger, "No messages come on {topic}"),
            Finding::Fresh => log_info!(&logger, "Messages on {topic} come in time"),
        }
        last = finding;
    }
}
