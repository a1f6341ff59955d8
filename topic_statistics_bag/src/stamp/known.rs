// SPDX-License-Identifier: Apache-2.0

//! Types whose first field is `std_msgs/Header header`, for bags that contain no definitions. Their packages are part of
//! ROS 2, or used on most robots.

/// Returns whether the first field of a type (`package/Name`) is known to be the header.
pub(super) fn has_first_header(message_type: &str) -> bool {
    let Some((package, name)) = message_type.split_once('/') else { return false };
    let names = match package {
        "actionlib_msgs" => "GoalStatusArray",
        "diagnostic_msgs" => "DiagnosticArray",
        "geometry_msgs" => {
            "AccelStamped AccelWithCovarianceStamped InertiaStamped PointStamped \
             PolygonInstanceStamped PolygonStamped PoseArray PoseStamped PoseWithCovarianceStamped \
             QuaternionStamped TransformStamped TwistStamped TwistWithCovarianceStamped \
             Vector3Stamped VelocityStamped WrenchStamped"
        }
        "nav_msgs" => "Goals GridCells OccupancyGrid Odometry Path Trajectory TrajectoryPoint",
        "sensor_msgs" => {
            "BatteryState CameraInfo CompressedImage FluidPressure Illuminance Image Imu JointState \
             Joy LaserScan MagneticField MultiDOFJointState MultiEchoLaserScan NavSatFix PointCloud \
             PointCloud2 Range RelativeHumidity Temperature TimeReference"
        }
        "stereo_msgs" => "DisparityImage",
        "trajectory_msgs" => "JointTrajectory MultiDOFJointTrajectory",
        "vision_msgs" => "Detection2D Detection2DArray Detection3D Detection3DArray",
        "visualization_msgs" => {
            "ImageMarker InteractiveMarker InteractiveMarkerFeedback InteractiveMarkerPose Marker"
        }
        _ => "",
    };
    names.split_whitespace().any(|known| known == name)
}
