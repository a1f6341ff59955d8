// SPDX-License-Identifier: Apache-2.0

//! The ROS arguments of a command line.

use std::ffi::OsString;

use rclrs::{Context, InitOptions, LogSeverity, Logger, RclrsError};

/// Splits a command line into the program's own arguments and the ROS arguments. The ROS arguments start at
/// `--ros-args` and end at `--` or at the end of the line.
pub fn split_ros_arguments(line: impl IntoIterator<Item = OsString>) -> (Vec<OsString>, Vec<String>) {
    let (mut own, mut ros, mut is_ros) = (vec![], vec![], false);
    for argument in line {
        is_ros |= argument == "--ros-args";
        if is_ros {
            is_ros = argument != "--";
            ros.push(argument.to_string_lossy().into_owned());
        } else {
            own.push(argument);
        }
    }
    (own, ros)
}

/// Creates the context of a program with its ROS arguments.
///
/// Also silences an error that rclrs 0.8 logs for each publisher in the ROS graph, because DDS does not report the
/// history QoS of a publisher. A user cannot fix this error. The log level applies to the whole process.
pub fn context(program: &str, ros_arguments: Vec<String>) -> Result<Context, RclrsError> {
    let context = Context::new([vec![program.to_owned()], ros_arguments].concat(), InitOptions::default())?;
    Logger::new("QoSProfile.conversion")?.set_level(LogSeverity::Fatal)?;
    Ok(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ros_arguments_are_split_off() {
        let line =
            ["topic_monitor", "imu", "--ros-args", "-r", "__node:=m", "--", "--json"].map(OsString::from);
        let (own, ros) = split_ros_arguments(line);
        assert_eq!(own, ["topic_monitor", "imu", "--json"]);
        assert_eq!(ros, ["--ros-args", "-r", "__node:=m", "--"]);
    }
}
