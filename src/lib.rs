//! Topic statistics for rclrs.
