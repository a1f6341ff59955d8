// SPDX-License-Identifier: Apache-2.0

//! A talker process, with the publishers of ten topics.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::Result;
use rclrs::*;
use ros_env::geometry_msgs::msg::PointStamped;

pub const PROCESSES: usize = 5;
pub const TOPICS: usize = 50;
/// Messages per second on each topic.
pub const RATE: u32 = 100;

pub fn topic(index: usize) -> String {
    format!("soak_{index}")
}

/// Returns a flag that is set at the first line or the end of standard input. Also returns the reading thread.
pub fn until_line() -> (Arc<AtomicBool>, JoinHandle<()>) {
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let read = move || {
        let mut line = String::new();
        let _line_or_end = std::io::stdin().read_line(&mut line);
        over.store(true, Ordering::Relaxed);
        while std::io::stdin().read_line(&mut line).is_ok_and(|bytes| bytes > 0) {}
    };
    (is_over, std::thread::spawn(read))
}

/// Publishes until the first line of standard input or its end. Then prints the topics, and the number of messages
/// published on each topic.
pub fn run(process: usize, incarnation: u64) -> Result<()> {
    let executor = Context::default_from_env()?.create_basic_executor();
    let nodes: Vec<Node> = (0..4)
        .map(|node| executor.create_node(format!("talker_{process}_{node}").as_str()))
        .collect::<Result<_, _>>()?;
    let mut publishers = vec![];
    let per_process = TOPICS / PROCESSES;
    for index in process * per_process..(process + 1) * per_process {
        let options = topic(index);
        let publisher =
            nodes[index % 4].create_publisher::<PointStamped>(options.keep_last(10).reliable())?;
        publishers.push((index, publisher, 0_u64));
    }
    let (is_over, _input) = until_line();
    let (started, clock) = (Instant::now(), Clock::system());
    for number in 0.. {
        let due = Duration::from_secs(1) * number / RATE;
        std::thread::sleep(due.saturating_sub(started.elapsed()));
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        for (_, publisher, published) in &mut publishers {
            let mut message = PointStamped::default();
            message.header.stamp = clock.now().to_ros_msg()?;
            (message.point.x, message.point.y) = ((*published + 1) as f64, incarnation as f64);
            publisher.publish(&message)?;
            *published += 1;
        }
    }
    // Fast DDS sends a heartbeat every 3 s, so in this time a reader can request missed messages twice.
    std::thread::sleep(Duration::from_secs(7));
    let counts: Vec<(usize, u64)> = publishers.iter().map(|(index, _, count)| (*index, *count)).collect();
    println!("{}", serde_json::to_string(&counts)?);
    Ok(())
}
