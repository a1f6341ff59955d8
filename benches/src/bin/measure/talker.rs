// SPDX-License-Identifier: Apache-2.0

//! A talker: publishes until it is ended.

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::ValueEnum;
use rclrs::*;
use ros_env::{
    builtin_interfaces::msg::Time,
    sensor_msgs::msg::{Image, Imu},
};

/// What it publishes: `sensor_msgs/Imu`, or an `Image` of 1 MB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Imu,
    Image,
}

#[derive(clap::Args)]
pub struct Options {
    kind: Kind,
    /// In Hz, of each topic. 0 is as fast as possible.
    rate: f64,
    /// The depth of the publishers' history.
    depth: u32,
    topics: Vec<String>,
}

pub fn run(options: &Options) -> Result<()> {
    let executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("bench_talker")?;
    match options.kind {
        Kind::Imu => publish(&node, options, Imu::default(), |imu, stamp| imu.header.stamp = stamp),
        Kind::Image => {
            let image = Image { data: vec![0; 1_000_000], ..Image::default() };
            publish(&node, options, image, |image, stamp| image.header.stamp = stamp)
        }
    }
}

/// Publishes a message on each topic, at a rate. The time of a message does not depend on the duration of earlier ones.
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
