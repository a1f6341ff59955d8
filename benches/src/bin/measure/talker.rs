// SPDX-License-Identifier: Apache-2.0

//! A talker process: publishes messages until the process is ended.

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
    /// The rate in Hz. 0 is as fast as possible.
    pub rate: f64,
}

pub fn start(kind: Kind, rate: f64) -> Result<Process> {
    Ok(Process::spawn(&mut itself("talker", &Options { kind, rate })?))
}

pub fn run(options: Options) -> Result<()> {
    let executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("bench_talker")?;
    match options.kind {
        Kind::Imu => publish(&node, options.rate, Imu::default(), |imu, stamp| imu.header.stamp = stamp),
        Kind::Image => {
            let image = Image { data: vec![0; 1_000_000], ..Image::default() };
            publish(&node, options.rate, image, |image, stamp| image.header.stamp = stamp)
        }
    }
}

/// Publishes messages on `load` at a rate. If a publication is slow, the planned times of later messages stay the same.
fn publish<T: rosidl_runtime_rs::Message>(
    node: &Node,
    rate: f64,
    mut message: T,
    set_stamp: impl Fn(&mut T, Time),
) -> Result<()> {
    let publisher = node.create_publisher::<T>("load".keep_last(10))?;
    let (started, clock) = (Instant::now(), Clock::system());
    for number in 0_u64.. {
        if rate > 0.0 {
            let due = Duration::from_secs_f64(number as f64 / rate);
            std::thread::sleep(due.saturating_sub(started.elapsed()));
        }
        set_stamp(&mut message, clock.now().to_ros_msg()?);
        publisher.publish(&message)?;
    }
    Ok(())
}
