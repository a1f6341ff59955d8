// SPDX-License-Identifier: Apache-2.0

//! A talker: publishes until it is ended.

use std::time::{Duration, Instant};

use anyhow::Result;
use rclrs::*;
use ros_env::{
    builtin_interfaces::msg::Time,
    sensor_msgs::msg::{Image, Imu},
};
use serde::{Deserialize, Serialize};
use test_support::Process;

use crate::process::itself;

/// The published type: `sensor_msgs/Imu`, or an `Image` of 1 MB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    Imu,
    Image,
}

#[derive(Serialize, Deserialize)]
pub struct Options {
    pub kind: Kind,
    /// The rate of each topic in Hz. 0 is as fast as possible.
    pub rate: f64,
    /// The depth of the publishers' history.
    pub depth: u32,
    pub topics: Vec<String>,
}

/// Starts a talker as a process.
pub fn start(kind: Kind, rate: f64, depth: u32, topics: &[String]) -> Result<Process> {
    let options = Options { kind, rate, depth, topics: topics.to_vec() };
    Ok(Process::spawn(&mut itself("talker", &options)?))
}

pub fn run(options: Options) -> Result<()> {
    let executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("bench_talker")?;
    match options.kind {
        Kind::Imu => publish(&node, &options, Imu::default(), |imu, stamp| imu.header.stamp = stamp),
        Kind::Image => {
            let image = Image { data: vec![0; 1_000_000], ..Image::default() };
            publish(&node, &options, image, |image, stamp| image.header.stamp = stamp)
        }
    }
}

/// Publishes a message on each topic at a rate. Slow publications do not delay the times of later messages.
fn publish<T: rosidl_runtime_rs::Message>(
    node: &Node,
    Options { rate, depth, topics, .. }: &Options,
    mut message: T,
    set_stamp: impl Fn(&mut T, Time),
) -> Result<()> {
    let publishers = topics.iter().map(|topic| node.create_publisher::<T>(topic.keep_last(*depth)));
    let publishers = publishers.collect::<Result<Vec<_>, _>>()?;
    let (started, clock) = (Instant::now(), Clock::system());
    for number in 0_u64.. {
        if *rate > 0.0 {
            let due = Duration::from_secs_f64(number as f64 / rate);
            std::thread::sleep(due.saturating_sub(started.elapsed()));
        }
        set_stamp(&mut message, clock.now().to_ros_msg()?);
        publishers.iter().try_for_each(|publisher| publisher.publish(&message))?;
    }
    Ok(())
}
