// SPDX-License-Identifier: Apache-2.0

//! Watches its own subscription of `imu`, and warns when the messages are too old or do not come.
//!
//! ROS parameter: `age_limit` (seconds, default 0.1). It is read at the start:
//!
//! ```text
//! watchdog --ros-args -p age_limit:=0.05
//! ```

use std::{error::Error, sync::Arc};

use rclrs::*;
use rclrs_topic_statistics::{watch, Metric, NodeStatistics, WindowStatistics};
use ros_env::sensor_msgs::msg::Imu;

/// What the watchdog finds.
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
        .description("Seconds that a message may be old when its callback starts")
        .read_only()?;

    let statistics = NodeStatistics::new(&node)?;
    let imu = statistics.create_subscription("imu".keep_last(10), |_: Imu| {
        // What the node is for.
    })?;
    let watching = watch_over(node.logger().clone(), imu.topic_name(), age_limit.get() * 1e3, imu.watch());
    let _watching = executor.commands().run(watching);

    executor.spin(until_signal).first_error()?;
    Ok(())
}

/// Says once when the messages become too old (`limit`, in milliseconds), when they stop coming, and when all is well again.
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
        // Here a robot would slow down, or take another sensor.
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
