// SPDX-License-Identifier: Apache-2.0

//! The probe effect: how an observer of a topic affects another subscriber of the topic, and how many of that
//! subscriber's losses the observer also sees.

use std::{
    path::PathBuf,
    process::Command,
    sync::mpsc::Receiver,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::Value;
use test_support::Process;

use crate::{
    listener::{Listened, Options, Runtime, Scope, Statistics},
    process::{build, command, cpu, itself, read_report},
    table::Table,
    talker::{self, Kind},
};

/// The rates of the publisher in Hz. 0 is as fast as possible.
const RATES: [f64; 4] = [100.0, 1000.0, 5000.0, 0.0];
/// The longest wait for an observer's first message, and for its report of the last losses.
const PATIENCE: Duration = Duration::from_secs(10);

/// The observers. The last one is the preloaded library in the subscriber's own process.
const OBSERVERS: [&str; 6] = [
    "nothing",
    "topic_monitor",
    "nice topic_monitor --best-effort",
    "topic_monitor --record",
    "an rclpy subscriber, as `ros2 topic hz` is one",
    PRELOADED,
];
const PRELOADED: &str = "the preloaded library, with a reader of /statistics";

struct Programs {
    monitor: PathBuf,
    library: PathBuf,
    directory: tempfile::TempDir,
}

impl Programs {
    fn command(&self, observer: &str) -> Option<Command> {
        let record = self.directory.path().join("probe.mcap");
        let _of_the_run_before = std::fs::remove_file(&record);
        let mut monitor = command(&self.monitor);
        monitor.arg("--json");
        match observer {
            "nothing" => return None,
            "topic_monitor" => monitor.arg("/load"),
            "topic_monitor --record" => monitor.args(["/load", "--record"]).arg(record),
            PRELOADED => monitor.args(["--from-statistics", "/bench_listener:/load"]),
            "nice topic_monitor --best-effort" => {
                monitor = command("nice");
                monitor.args(["-n", "19"]).arg(&self.monitor).args(["--json", "--best-effort", "/load"])
            }
            _ => {
                monitor = command("python3");
                monitor.args(["benches/subscriber.py", "load"])
            }
        };
        Some(monitor)
    }
}

/// Reads an observer's output until the observer has received a message, or until the time limit. Returns the last
/// reported losses.
fn read(lines: &Receiver<String>, limit: Duration, until_it_receives: bool) -> Option<u64> {
    let (deadline, mut lost) = (Instant::now() + limit, None);
    while let Ok(line) = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        let value: Value = serde_json::from_str(&line).unwrap_or_default();
        lost = value["total"]["lost"].as_u64().or(lost);
        if until_it_receives && (value.as_u64() > Some(0) || value["received"].as_u64() > Some(0)) {
            break;
        }
    }
    lost
}

/// Runs the publisher at a rate, the subscriber and an observer. Returns a row of the table.
fn run(programs: &Programs, rate: f64, observer: &str, seconds: f64) -> Result<String> {
    let talker = talker::start(Kind::Imu, rate)?;
    let running = programs.command(observer).map(|mut command| Process::spawn_printing(&mut command));
    let read_lines = |limit, until_it_receives| {
        running.as_ref().and_then(|(_, lines)| read(lines, limit, until_it_receives))
    };
    let lost_before = if observer == PRELOADED { None } else { read_lines(PATIENCE, true) };
    let process_cpu = |process: &Process| cpu(format!("/proc/{}", process.id()), false);
    let used = || -> Result<[f64; 2]> {
        let observer_cpu = running.as_ref().map(|(process, _)| process_cpu(process)).transpose()?;
        Ok([process_cpu(&talker)?, observer_cpu.unwrap_or_default()])
    };
    let (started, before) = (Instant::now(), used()?);
    let (statistics, scope, runtime) = (Statistics::Off, Scope::Node, Runtime::Basic);
    let mut listener =
        itself("listener", &Options { message: Kind::Imu, statistics, scope, runtime, seconds })?;
    if observer == PRELOADED {
        listener.env("LD_PRELOAD", &programs.library).env("TOPIC_STATISTICS_METRICS", "all");
    }
    let listened: Listened = read_report(&mut listener)?;
    let (after, elapsed) = (used()?, started.elapsed().as_secs_f64());
    let [talker_cpu, observer_cpu] = [0, 1].map(|index| (after[index] - before[index]) / elapsed * 100.0);
    // Some of the observer's reports may not have arrived yet, so wait two seconds for them.
    let seen = read_lines(Duration::from_secs(2), false);
    let recall = match (seen, listened.lost) {
        (None, _) | (_, 0) => "-".to_owned(),
        (Some(seen), lost) => {
            let seen = seen.saturating_sub(lost_before.unwrap_or_default());
            format!("{seen} ({:.2})", seen as f64 / lost as f64)
        }
    };
    let rate = if rate > 0.0 { format!("{rate} Hz") } else { "as fast as possible".to_owned() };
    Ok(format!(
        "{rate} | {observer} | {:.0} | {} | {recall} | {} | {} | {:.1} | {talker_cpu:.1} | {observer_cpu:.1}",
        listened.received as f64 / listened.seconds,
        listened.lost,
        listened.p50_us,
        listened.p99_us,
        listened.cpu / listened.seconds * 100.0,
    ))
}

pub fn measure(seconds: f64) -> Result<Table> {
    let monitor = build("topic_statistics_monitor", "topic_monitor")?;
    let library = build("topic_statistics_preload", "libtopic_statistics_preload.so")?;
    let programs = Programs { monitor, library, directory: tempfile::tempdir()? };
    let mut table = Table::new(
        "publisher | beside the subscriber | received/s | lost by it | of it seen | latency p50, us | p99, us | \
         CPU of it, % | of the publisher, % | of the observer, %",
    );
    for rate in RATES {
        for observer in OBSERVERS {
            eprintln!("{rate} Hz, {observer} ...");
            table.row(run(&programs, rate, observer, seconds)?);
        }
    }
    Ok(table)
}
