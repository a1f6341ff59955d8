// SPDX-License-Identifier: Apache-2.0

//! A list of types whose first field is `std_msgs/Header header`, for bags that contain no definitions.

/// The names of these types without `/msg`, sorted. Their packages are part of ROS 2, or used on most robots.
pub(super) static FIRST_HEADER: &[&str] = &[
    "actionlib_msgs/GoalStatusArray",
    "diagnostic_msgs/DiagnosticArray",
    "geometry_msgs/AccelStamped",
    "geometry_msgs/AccelWithCovarianceStamped",
    "geometry_msgs/InertiaStamped",
    "geometry_msgs/PointStamped",
    "geometry_msgs/PolygonInstanceStamped",
    "geometry_msgs/PolygonStamped",
    "geometry_msgs/PoseArray",
    "geometry_msgs/PoseStamped",
    "geometry_msgs/PoseWithCovarianceStamped",
    "geometry_msgs/QuaternionStamped",
    "geometry_msgs/TransformStamped",
    "geometry_msgs/TwistStamped",
    "geometry_msgs/TwistWithCovarianceStamped",
    "geometry_msgs/Vector3Stamped",
    "geometry_msgs/VelocityStamped",
    "geometry_msgs/WrenchStamped",
    "nav_msgs/Goals",
    "nav_msgs/GridCells",
    "nav_msgs/OccupancyGrid",
    "nav_msgs/Odometry",
    "nav_msgs/Path",
    "nav_msgs/Trajectory",
    "nav_msgs/TrajectoryPoint",
    "sensor_msgs/BatteryState",
    "sensor_msgs/CameraInfo",
    "sensor_msgs/CompressedImage",
    "sensor_msgs/FluidPressure",
    "sensor_msgs/Illuminance",
    "sensor_msgs/Image",
    "sensor_msgs/Imu",
    "sensor_msgs/JointState",
    "sensor_msgs/Joy",
    "sensor_msgs/LaserScan",
    "sensor_msgs/MagneticField",
    "sensor_msgs/MultiDOFJointState",
    "sensor_msgs/MultiEchoLaserScan",
    "sensor_msgs/NavSatFix",
    "sensor_msgs/PointCloud",
    "sensor_msgs/PointCloud2",
    "sensor_msgs/Range",
    "sensor_msgs/RelativeHumidity",
    "sensor_msgs/Temperature",
    "sensor_msgs/TimeReference",
    "stereo_msgs/DisparityImage",
    "trajectory_msgs/JointTrajectory",
    "trajectory_msgs/MultiDOFJointTrajectory",
    "vision_msgs/Detection2D",
    "vision_msgs/Detection2DArray",
    "vision_msgs/Detection3D",
    "vision_msgs/Detection3DArray",
    "visualization_msgs/ImageMarker",
    "visualization_msgs/InteractiveMarker",
    "visualization_msgs/InteractiveMarkerFeedback",
    "visualization_msgs/InteractiveMarkerPose",
    "visualization_msgs/Marker",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_sorted() {
        assert!(FIRST_HEADER.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
