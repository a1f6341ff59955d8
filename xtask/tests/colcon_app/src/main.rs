//! The example of the README, as a package of its own.

use rclrs::*;
use rclrs_topic_statistics::NodeStatistics;
use ros_env::sensor_msgs::msg::Imu;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("imu_listener")?;

    let statistics = NodeStatistics::new(&node)?;
    let logger = node.logger().clone();
    let _imu = statistics.create_subscription("imu".keep_last(10), move |message: Imu| {
        log_info!(logger.once(), "Receiving imu in the frame {}", message.header.frame_id);
    })?;

    executor.spin(SpinOptions::default()).first_error()?;
    Ok(())
}
