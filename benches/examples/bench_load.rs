// SPDX-License-Identifier: Apache-2.0

//! The load of `cargo xtask bench --monitor`. Each of these runs in its own process until it is ended:
//!
//! - `bench_load imu`: 20 topics of `sensor_msgs/Imu` at 100 Hz (`load/imu_0` ...)
//! - `bench_load fast`: one topic of `sensor_msgs/Imu` at 5000 Hz (`load/fast`)
//! - `bench_load image`: an `Image` of 1 MB at 30 Hz (`load/image`)

use std::{
    error::Error,
    time::{Duration, Instant},
};

use rclrs::*;
use ros_env::{
    builtin_interfaces::msg::Time,
    sensor_msgs::msg::{Image, Imu},
};

fn main() -> Result<(), Box<dyn Error>> {
    let what = std::env::args().nth(1).unwrap_or_default();
    let executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node(format!("bench_{what}").as_str())?;
    let mut imu = Imu::default();
    match &*what {
        "imu" => {
            let names: Vec<String> = (0..20).map(|index| format!("load/imu_{index}")).collect();
            let publishers =
                names.iter().map(|name| node.create_publisher::<Imu>(name.as_str().keep_last(100)));
            let publishers = publishers.collect::<Result<Vec<_>, _>>()?;
            pace(100.0, |stamp| {
                imu.header.stamp = stamp;
                publishers.iter().try_for_each(|publisher| publisher.publish(&imu))
            })
        }
        "fast" => {
            let publisher = node.create_publisher::<Imu>("load/fast".keep_last(1000))?;
            pace(5000.0, |stamp| {
                imu.header.stamp = stamp;
                publisher.publish(&imu)
            })
        }
        "image" => {
            let publisher = node.create_publisher::<Image>("load/image".keep_last(10))?;
            let mut image = Image { data: vec![0; 1_000_000], ..Image::default() };
            pace(30.0, |stamp| {
                image.header.stamp = stamp;
                publisher.publish(&image)
            })
        }
        _ => Err("bench_load imu|fast|image".into()),
    }
}

/// Publishes at a rate. The time of each message does not depend on the duration of earlier ones.
fn pace(rate: f64, mut publish: impl FnMut(Time) -> Result<(), RclrsError>) -> Result<(), Box<dyn Error>> {
    let (started, clock) = (Instant::now(), Clock::system());
    for number in 0_u64.. {
        let due = Duration::from_secs_f64(number as f64 / rate);
        std::thread::sleep(due.saturating_sub(started.elapsed()));
        publish(clock.now().to_ros_msg()?)?;
    }
    Ok(())
}
