// SPDX-License-Identifier: Apache-2.0

//! The probe effect: what an observer does to a subscriber of a topic, and what it sees of the subscriber's losses.

use std::{
    path::PathBuf,
    sync::mpsc::Receiver,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::Value;
use test_support::Process;

use crate::{
    listener::Listened,
    process::{build, command, cpu, itself, output, talker},
    table::Table,
};

/// The rates of the publisher in Hz; 0 is as fast as possible.
const RATES: [f64; 4] = [100.0, 1000.0, 5000.0, 0.0];
/// The time until an observer receives, or until it has reported the last losses.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, PartialEq)]
enum Observer {
    Nothing,
    Monitor,
    Gentle,
    Record,
    Preload,
    Rclpy,
}

impl Observer {
    const ALL: [Self; 6] =
        [Self::Nothing, Self::Monitor, Self::Gentle, Self::Record, Self::Preload, Self::Rclpy];

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Monitor => "topic_monitor",
            Self::Gentle => "nice topic_monitor --best-effort",
            Self::Record => "topic_monitor --record",
            Self::Preload => "the preloaded library, with a reader of /statistics",
            Self::Rclpy => "an rclpy subscriber, as `ros2 topic hz` is one",
        }
    }
}

/// The programs that observe.
struct Programs {
    monitor: PathBuf,
    library: PathBuf,
    directory: tempfile::TempDir,
}

/// A process that observes, and the lines that it prints.
struct Running {
    process: Process,
    lines: Receiver<String>,
    /// The losses that it has reported.
    lost: Option<u64>,
}

impl Programs {
    fn start(&self, observer: Observer) -> Option<Running> {
        let mut command = match observer {
            Observer::Nothing => return None,
            Observer::Rclpy => {
                let mut command = command("python3");
                command.args(["benches/subscriber.py", "load"]);
                command
            }
            Observer::Preload => {
                let mut command = command(&self.monitor);
                command.args(["--json", "--from-statistics", "/bench_listener:/load"]);
                command
            }
            Observer::Monitor | Observer::Gentle | Observer::Record => {
                let mut command = match observer {
                    Observer::Gentle => command("nice"),
                    _ => command(&self.monitor),
                };
                if observer == Observer::Gentle {
                    command.args(["-n", "19"]).arg(&self.monitor).arg("--best-effort");
                }
                command.args(["--json", "/load"]);
                if observer == Observer::Record {
                    let file = self.directory.path().join("probe.mcap");
                    let _of_the_run_before = std::fs::remove_file(&file);
                    command.arg("--record").arg(file);
                }
                command
            }
        };
        let (process, lines) = Process::spawn_printing(&mut command);
        Some(Running { process, lines, lost: None })
    }
}

impl Running {
    /// Reads what it has printed until it prints something as wanted, or nothing comes any more.
    fn read_until(&mut self, wanted: impl Fn(&Value) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            let value = serde_json::from_str(&line).unwrap_or_default();
            self.accept(&value);
            if wanted(&value) {
                return;
            }
        }
    }

    fn accept(&mut self, value: &Value) {
        self.lost = value["total"]["lost"].as_u64().or(self.lost);
    }

    fn cpu(&self) -> Result<f64> {
        cpu(format!("/proc/{}", self.process.id()), false)
    }
}

/// What a run has shown.
struct Run {
    listened: Listened,
    /// CPU time of the observer and of the publisher per second.
    observer_cpu: f64,
    talker_cpu: f64,
    /// The losses that the observer has reported during the run; None if it reports none.
    seen: Option<u64>,
}

/// Runs the publisher at a rate, the subscriber, and an observer.
fn run(programs: &Programs, rate: f64, observer: Observer, seconds: f64) -> Result<Run> {
    let talker = talker(&["imu", &rate.to_string(), "10", "load"]);
    let mut running = programs.start(observer);
    if let Some(running) = running.as_mut().filter(|_| observer != Observer::Preload) {
        running.read_until(|value| value.as_u64() > Some(0) || value["received"].as_u64() > Some(0));
    }
    let (started, lost_before) = (Instant::now(), running.as_ref().and_then(|running| running.lost));
    let cpu_of = |running: &Option<Running>| -> Result<[f64; 2]> {
        let of_observer = running.as_ref().map(Running::cpu).transpose()?.unwrap_or_default();
        Ok([of_observer, cpu(format!("/proc/{}", talker.id()), false)?])
    };
    let cpu_before = cpu_of(&running)?;
    let mut listener = itself(&["listener", "imu", "off", "node", "basic", &seconds.to_string()]);
    if observer == Observer::Preload {
        listener.env("LD_PRELOAD", &programs.library).env("TOPIC_STATISTICS_METRICS", "all");
    }
    let listened = serde_json::from_str(&output(&mut listener)?).context("The report of the listener")?;
    let (cpu_after, elapsed) = (cpu_of(&running)?, started.elapsed().as_secs_f64());
    if let Some(running) = &mut running {
        // What it prints next has been under way.
        let read = Instant::now() + Duration::from_secs(2);
        while let Ok(line) = running.lines.recv_timeout(read.saturating_duration_since(Instant::now())) {
            running.accept(&serde_json::from_str(&line).unwrap_or_default());
        }
    }
    let lost = running.and_then(|running| running.lost);
    let seen = lost.map(|lost| lost.saturating_sub(lost_before.unwrap_or_default()));
    let [observer_cpu, talker_cpu] = [0, 1].map(|index| (cpu_after[index] - cpu_before[index]) / elapsed);
    Ok(Run { listened, observer_cpu, talker_cpu, seen })
}

/// Measures each observer at each rate.
pub fn measure(seconds: f64) -> Result<Table> {
    let monitor = build("topic_statistics_monitor", "topic_monitor")?;
    let library = build("topic_statistics_preload", "libtopic_statistics_preload.so")?;
    let programs = Programs { monitor, library, directory: tempfile::tempdir()? };
    let mut table = Table::new(
        "publisher | beside the subscriber | received/s | lost by it | of it seen | latency p50, us | p99, us | \
         CPU of it, % | of the publisher, % | of the observer, %",
    );
    for rate in RATES {
        for observer in Observer::ALL {
            eprintln!("{rate} Hz, {} ...", observer.name());
            let Run { listened, observer_cpu, talker_cpu, seen } = run(&programs, rate, observer, seconds)?;
            let rate = if rate > 0.0 { format!("{rate} Hz") } else { "as fast as possible".to_owned() };
            let recall = match (seen, listened.lost) {
                (None, _) | (_, 0) => "-".to_owned(),
                (Some(seen), lost) => format!("{seen} ({:.2})", seen as f64 / lost as f64),
            };
            let of_observer = match observer {
                Observer::Nothing => "-".to_owned(),
                _ => format!("{:.1}", observer_cpu * 100.0),
            };
            table.row(format!(
                "{rate} | {} | {:.0} | {} | {recall} | {} | {} | {:.1} | {:.1} | {of_observer}",
                observer.name(),
                listened.received as f64 / listened.seconds,
                listened.lost,
                listened.p50_us,
                listened.p99_us,
                listened.cpu / listened.seconds * 100.0,
                talker_cpu * 100.0,
            ));
        }
    }
    Ok(table)
}
