// SPDX-License-Identifier: Apache-2.0

//! A process with some of the publishers.

use std::{
    ops::Range,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use rclrs::*;
use ros_env::geometry_msgs::msg::PointStamped;

pub const PROCESSES: usize = 5;
pub const TOPICS: usize = 50;
/// Publishers' nodes in a process.
const NODES: usize = 4;
/// Messages a second on each topic.
pub const RATE: u32 = 100;

pub fn topic(index: usize) -> String {
    format!("soak_{index}")
}

/// Returns the topics of a process.
fn topics(process: usize) -> Range<usize> {
    const OF_A_PROCESS: usize = TOPICS / PROCESSES;
    process * OF_A_PROCESS..(process + 1) * OF_A_PROCESS
}

/// Publishes until a line on standard input, or its end. Then prints topics and the number of messages published on
/// each.
pub fn run(process: usize, incarnation: u64) -> Result<()> {
    let executor = Context::default_from_env()?.create_basic_executor();
    let nodes: Vec<Node> = (0..NODES)
        .map(|node| executor.create_node(format!("talker_{process}_{node}").as_str()))
        .collect::<Result<_, _>>()?;
    let mut publishers = vec![];
    for (place, index) in topics(process).enumerate() {
        let options = topic(index);
        let publisher =
            nodes[place % NODES].create_publisher::<PointStamped>(options.keep_last(10).reliable())?;
        publishers.push((index, publisher, 0_u64));
    }
    let is_over = Arc::new(AtomicBool::new(false));
    std::thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            let _line_or_end = std::io::stdin().read_line(&mut String::new());
            is_over.store(true, Ordering::Relaxed);
        }
    });
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
    // Time to send missed messages of a reader again: Fast DDS asks for them every 3 s.
    std::thread::sleep(Duration::from_secs(4));
    let counts: Vec<(usize, u64)> = publishers.iter().map(|(index, _, count)| (*index, *count)).collect();
    println!("{}", serde_json::to_string(&counts)?);
    Ok(())
}
