// SPDX-License-Identifier: Apache-2.0

//! `--chains`: the delay of each path of nodes from one topic to another, computed from the hops that preloaded nodes
//! publish. A hop is a node with a topic that the node receives and a topic that the node publishes.

mod hops;
mod missing;
mod output;

use std::{fs::File, io::BufWriter, time::Instant};

use rclrs::Node;
use topic_statistics_observe::ros::executor::Spinning;

use crate::{
    arguments::Arguments,
    error::{print_error, Failure, UNFULFILLED},
    provider::{Notices, RowProvider},
    signals::Interrupt,
    statistics::StatisticsReader,
    views::{DISCOVERY, TICK},
    why,
};
use hops::Hops;
use missing::missing;

pub fn run(
    node: &Node,
    arguments: &Arguments,
    [first, last]: [&str; 2],
    output: File,
    mut spinning: Spinning,
    interrupt: &Interrupt,
) -> Result<u8, Failure> {
    let topic = arguments.from_statistics.as_ref().and_then(|topic| topic.name()).unwrap_or("/statistics");
    let max = arguments.max_topics.map_or(StatisticsReader::MAX_SOURCES, |max| max as usize);
    let mut reader = StatisticsReader::new(node, topic, vec![], max);
    let mut hops = Hops::default();
    let mut output = BufWriter::new(output);
    let mut notices = Notices::default();
    let (started, mut reported) = (Instant::now(), Instant::now());
    let mut said = vec![];
    loop {
        spinning.check()?;
        let now = Instant::now();
        let is_late = arguments.duration.is_some_and(|duration| now - started >= duration);
        let is_over = is_late || interrupt.is_set();
        reader.poll_windows(|row| {
            row.window.iter().for_each(|window| hops.accept(&row.name, window));
        })?;
        if let Some(notice) = notices.next(reader.notice(), now) {
            print_error(&notice);
        }
        if is_over || now - reported >= arguments.period {
            reported = now;
            hops.forget(now);
            let paths = hops.paths(first, last);
            let missing = match paths.is_empty() && (is_over || now - started >= DISCOVERY) {
                true => missing(&why::read(node), &hops, first, last),
                false => vec![],
            };
            output::write(&mut output, arguments.json, [first, last], &paths, &missing)?;
            if missing != said {
                missing.iter().for_each(|text| print_error(text));
                said = missing;
            }
            if is_over {
                let is_known = paths.iter().any(|path| !path.mean().is_nan());
                return Ok(if is_late && !is_known { UNFULFILLED } else { 0 });
            }
        }
        std::thread::sleep(TICK);
    }
}
