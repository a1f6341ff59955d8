//! The load of `cargo xtask bench --monitor`: 20 topics of `sensor_msgs/Imu` at 100 Hz (`load/imu_0` ...), one at 5000 Hz
//! (`load/fast`), and an `Image` of 1 MB at 30 Hz (`load/image`). Until it is ended.

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
    let executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("bench_load")?;
    let names: Vec<String> = (0..20).map(|index| format!("load/imu_{index}")).collect();
    let slow = names.iter().map(|name| node.create_publisher::<Imu>(name.as_str().keep_last(100)));
    let slow = slow.collect::<Result<Vec<_>, _>>()?;
    let fast = node.create_publisher::<Imu>("load/fast".keep_last(1000))?;
    let images = node.create_publisher::<Image>("load/image".keep_last(10))?;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut imu = Imu::default();
            pace(100.0, |stamp| {
                imu.header.stamp = stamp;
                slow.iter().try_for_each(|publisher| publisher.publish(&imu))
            })
        });
        scope.spawn(|| {
            let mut imu = Imu::default();
            pace(5000.0, |stamp| {
                imu.header.stamp = stamp;
                fast.publish(&imu)
            })
        });
        scope.spawn(|| {
            let mut image = Image { data: vec![0; 1_000_000], ..Image::default() };
            pace(30.0, |stamp| {
                image.header.stamp = stamp;
                images.publish(&image)
            })
        });
    });
    Ok(())
}

/// Publishes at a rate, each message at its time whatever the ones before took.
fn pace(rate: f64, mut publish: impl FnMut(Time) -> Result<(), RclrsError>) {
    let (started, clock) = (Instant::now(), Clock::system());
    for number in 0_u64.. {
        let due = Duration::from_secs_f64(number as f64 / rate);
        std::thread::sleep(due.saturating_sub(started.elapsed()));
        let published =
            clock.now().to_ros_msg().map_err(Box::<dyn Error>::from).and_then(|stamp| Ok(publish(stamp)?));
        if let Err(error) = published {
            return eprintln!("{error}");
        }
    }
}
