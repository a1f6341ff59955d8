// SPDX-License-Identifier: Apache-2.0

//! `--chains`: the delay of each path of nodes from one topic to another, computed from the hops that nodes with the
//! preloaded library publish. A hop is a node with a topic that the node receives and a topic that the node publishes.

mod hops;
mod missing;

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    time::Instant,
};

use rclrs::Node;
use serde_json::{json, Value};
use topic_statistics_observe::{
    format::{count_if_known, figure, name},
    json::write_object,
    ros::executor::Spinning,
};

use crate::{
    arguments::Arguments,
    process::{print_error, Failure, UNFULFILLED},
    provider::{Notices, RowProvider},
    signals::Interrupt,
    statistics::StatisticsReader,
    views::{DISCOVERY, TICK},
    why,
};
use hops::{Hops, Path, PathHop};
use missing::{missing, Seen};

pub fn run(
    node: &Node,
    arguments: &Arguments,
    [first, last]: [&str; 2],
    output: File,
    mut spinning: Spinning,
    interrupt: &Interrupt,
) -> Result<u8, Failure> {
    let topic = arguments.from_statistics.as_ref().and_then(|topic| topic.name()).unwrap_or("/statistics");
    let mut reader = StatisticsReader::new(node, topic, vec![], arguments.max_topics);
    let mut hops = Hops::default();
    let mut output = BufWriter::new(output);
    let mut notices = Notices::default();
    let (started, mut reported) = (Instant::now(), Instant::now());
    let (mut seen, mut said) = (Seen::default(), vec![]);
    loop {
        spinning.check()?;
        let now = Instant::now();
        let is_late = arguments.duration.is_some_and(|duration| now - started >= duration);
        let is_over = is_late || interrupt.is_set();
        reader.poll_windows(|row| {
            row.window.iter().for_each(|window| hops.add_window(&row.name, window));
        })?;
        if let Some(notice) = notices.next(reader.notice(), now) {
            print_error(&notice);
        }
        if is_over || now - reported >= arguments.period {
            reported = now;
            hops.forget(now);
            let paths = hops.paths(first, last);
            let missing = match paths.is_empty() && (is_over || now - started >= DISCOVERY) {
                true => missing(&why::read(node), &hops, [first, last], &mut seen, now),
                false => vec![],
            };
            write(&mut output, arguments.json, [first, last], &paths, &missing)?;
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

/// Writes the paths between two topics. In JSON, also writes which hops are missing if no path is known.
fn write(
    to: &mut impl Write,
    is_json: bool,
    ends: [&str; 2],
    paths: &[Path],
    missing: &[String],
) -> io::Result<()> {
    for path in paths {
        match is_json {
            true => write_object(to, &json(path))?,
            false => write_lines(to, path)?,
        }
    }
    if is_json && paths.is_empty() && !missing.is_empty() {
        let [first, last] = ends;
        write_object(to, &json!({ "from": first, "to": last, "missing": missing }))?;
    }
    to.flush()
}

fn write_lines(to: &mut impl Write, path: &Path) -> io::Result<()> {
    let topics: Vec<String> = path.topics().map(name).collect();
    let mean = figure(path.mean());
    writeln!(to, "{}  mean {mean} ms  lost {}", topics.join(" -> "), count_if_known(path.lost()))?;
    for (index, hop) in path.0.iter().enumerate() {
        let mark = if path.worst() == Some(index) && path.0.len() > 1 { '>' } else { ' ' };
        let id = format!("{}: {} -> {}", name(&hop.id.node), name(&hop.id.input), name(&hop.id.output));
        let [mean, min, max] = [hop.mean, hop.min, hop.max].map(figure);
        let [received, lost] = [hop.received, hop.lost].map(count_if_known);
        let count = hop.count;
        writeln!(
                to,
                "  {mark} {id}  mean {mean}  min {min}  max {max}  lost {lost}  received {received}  messages {count}"
            )?;
    }
    notes(path).iter().try_for_each(|note| writeln!(to, "    {note}"))
}

fn notes(path: &Path) -> Vec<String> {
    let mut notes = vec![];
    for hop in &path.0 {
        let output = name(&hop.id.output);
        if hop.count == 0 {
            let node = name(&hop.id.node);
            notes.push(format!("no sample of {node}: no message, or causes that are not known"));
        }
        if let Some(all) = hop.publications.filter(|_| hop.is_partial()) {
            notes.push(format!("{} of {all} publications on {output} have another cause", all - hop.count));
        }
    }
    if !path.mean().is_nan() && !path.is_of_same_messages() {
        notes.push("the sum is an estimate: the hops have samples of different messages".to_owned());
    }
    notes
}

fn json(path: &Path) -> Value {
    let id = |hop: &PathHop| json!({ "node": hop.id.node, "input": hop.id.input, "output": hop.id.output });
    let hop = |hop: &PathHop| {
        json!({
            "node": hop.id.node, "input": hop.id.input, "output": hop.id.output,
            "mean": hop.mean, "min": hop.min, "max": hop.max, "count": hop.count,
            "lost": hop.lost, "received": hop.received, "publications": hop.publications,
        })
    };
    json!({
        "path": path.topics().collect::<Vec<_>>(),
        "unit": "ms",
        "mean": path.mean(),
        // The percentiles of a path are unknown: they are not the sums of the percentiles of its hops.
        "p50": null, "p90": null, "p99": null, "p99_9": null,
        "same_messages": path.is_of_same_messages(),
        "lost": path.lost(),
        "worst": path.worst().map(|index| id(&path.0[index])),
        "hops": path.0.iter().map(hop).collect::<Vec<_>>(),
        "notes": notes(path),
    })
}
