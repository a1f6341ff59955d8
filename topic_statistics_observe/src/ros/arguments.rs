// SPDX-License-Identifier: Apache-2.0

//! The ROS arguments of a command line.

use std::{
    env,
    error::Error,
    ffi::OsString,
    io::{self, Write},
    panic,
};

use rclrs::{Context, Executor, InitOptions, LogSeverity, Logger, Node, RclrsError};
use signal_hook::low_level;

use crate::format;

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
pub fn context(program: &str, ros_arguments: &[String]) -> Result<Context, Box<dyn Error>> {
    let text = |name| env::var(name).unwrap_or_default();
    check_domain(&text("ROS_DOMAIN_ID"), &text("RMW_IMPLEMENTATION"))?;
    let arguments = [&[program.to_owned()], ros_arguments].concat();
    let context = Context::new(arguments, InitOptions::default())?;
    Logger::new("QoSProfile.conversion")?.set_level(LogSeverity::Fatal)?;
    Ok(context)
}

/// Errors if rcl or the middleware would refuse the ROS domain. rcl does not give the reason, and Fast DDS ends the
/// process. rcl also reads `0x10` and `5x`, so only a text without a digit at its start is refused.
fn check_domain(domain: &str, middleware: &str) -> Result<(), String> {
    let is_read = domain.is_empty() || domain.trim_start().starts_with(|c: char| c.is_ascii_digit());
    // The ports of DDS end at the domain 232. Zenoh has no such limit.
    let is_too_high = domain.parse::<u64>().is_ok_and(|domain| domain > 232) && !middleware.contains("zenoh");
    match is_read && !is_too_high {
        true => Ok(()),
        false => Err(format!("ROS_DOMAIN_ID is {domain:?}: it has to be a whole number from 0 to 232")),
    }
}

/// Creates the node of a program.
///
/// rclrs 0.8 panics at some values of ROS parameters. The panic poisons the mutex of the context, so the process then
/// aborts or hangs. The values cannot be checked before, because a parameter file can be a pipe, which is read only
/// once. So a panic hook reports the value, and ends the process with `status`.
pub fn create_node(
    executor: &Executor,
    program: &'static str,
    name: &str,
    ros_arguments: &[String],
    status: u8,
) -> Result<Node, RclrsError> {
    let given = ros_arguments.iter().rev().find_map(|argument| argument.strip_prefix("use_sim_time:="));
    let sim_time = given.filter(|value| !["true", "false"].contains(value));
    let sim_time = sim_time.map_or("no boolean".to_owned(), |value| format!("{value:?}"));
    let empty = empty_list(ros_arguments);
    panic::set_hook(Box::new(move |info| {
        let file = info.location().map_or("", panic::Location::file);
        let text = if file.ends_with("time_source.rs") {
            format!("The parameter use_sim_time is {sim_time}: it has to be true or false")
        } else if file.ends_with("parameter/value.rs") {
            format!("{empty} is []: a list has to have an element; leave the parameter out, or write ['']")
        } else {
            let _closed = writeln!(io::stderr(), "{info}");
            return;
        };
        let _closed = writeln!(io::stderr(), "{program}: {text}");
        low_level::exit(status.into());
    }));
    let node = executor.create_node(name);
    drop(panic::take_hook());
    node
}

/// Returns words for the parameter that is an empty list. Only parameters on the command line can be named.
fn empty_list(ros_arguments: &[String]) -> String {
    let is_empty = |value: &str| value.split_whitespace().collect::<String>() == "[]";
    let given = ros_arguments.iter().filter_map(|argument| argument.split_once(":="));
    let name = given.filter(|(_, value)| is_empty(value)).map(|(name, _)| name).next();
    name.map_or("A parameter".to_owned(), |name| format!("The parameter {}", format::name(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_on_the_command_line_is_named() {
        let given = ["-p", "x:=[1]", "-p", "/**:y:=[ ]"].map(String::from);
        assert_eq!(empty_list(&given), "The parameter /**:y");
        assert_eq!(empty_list(&given[..2]), "A parameter");
    }

    #[test]
    fn a_ros_domain_that_ros_refuses_is_an_error() {
        for right in ["", "0", "232", " 7", "0x10"] {
            assert_eq!(check_domain(right, ""), Ok(()), "{right}");
        }
        assert_eq!(check_domain("999", "rmw_zenoh_cpp"), Ok(()));
        for wrong in ["abc", "-1", "999"] {
            let error = format!("ROS_DOMAIN_ID is {wrong:?}: it has to be a whole number from 0 to 232");
            assert_eq!(check_domain(wrong, "rmw_fastrtps_cpp"), Err(error));
        }
    }

    #[test]
    fn ros_arguments_are_split_off() {
        let line =
            ["topic_monitor", "imu", "--ros-args", "-r", "__node:=m", "--", "--json"].map(OsString::from);
        let (own, ros) = split_ros_arguments(line);
        assert_eq!(own, ["topic_monitor", "imu", "--json"]);
        assert_eq!(ros, ["--ros-args", "-r", "__node:=m", "--"]);
    }
}
