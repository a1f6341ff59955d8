// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask demo`: live statistics of a real node.
//!
//! Three processes: the talker, the listener with its statistics, and a reader of /statistics in another language.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, IsTerminal, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    time::{Duration, Instant},
};

use anyhow::{bail, Context, Result};
use console::{truncate_str, Term};
use serde::Deserialize;

use crate::{domain::domain, environment::Environment};

/// How long the first metrics may take to come: DDS discovery and a window.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the demo for some seconds, or until Ctrl-C.
pub fn run(environment: &Environment, project: &Path, seconds: Option<u64>) -> Result<ExitCode> {
    let mut build = environment.command("cargo");
    build.current_dir(project).args([
        "build",
        "--quiet",
        "--package",
        "rclrs_topic_statistics_examples",
        "--bins",
    ]);
    eprintln!("Building the talker and the listener (the first time this takes a minute or two) ...");
    if !build.status().context("cargo cannot be started")?.success() {
        bail!("The talker and the listener could not be built; cargo says above why");
    }

    let (events, received) = mpsc::channel();
    let interrupt = events.clone();
    ctrlc::set_handler(move || drop(interrupt.send(Event::Interrupted)))
        .context("Cannot listen for Ctrl-C")?;

    let target = environment.target_dir();
    let logs = target.join("demo");
    fs::create_dir_all(&logs).with_context(|| format!("Cannot create {}", logs.display()))?;
    // Nobody else's nodes are in the table.
    let domain = domain().context(
        "Programs of this machine use all ROS domains from 1 to 101; `ss -ulpn` shows who has UDP ports from 7650 on",
    )?;
    let start = |name: &'static str, mut command: Command, output: Stdio| {
        command.env("ROS_DOMAIN_ID", domain.to_string()).env("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST");
        Process::start(name, command, output, &logs)
    };
    let binary = |name: &str, arguments: &[&str]| {
        let mut command = environment.command(target.join("debug").join(name));
        command.args(arguments);
        command
    };
    let mut reader = environment.command("python3");
    reader.arg(project.join("examples/statistics_reader.py")).arg("--json");

    let mut reader = start("rclpy reader", reader, Stdio::piped())?;
    let listener = start("listener", binary("listener", &[]), Stdio::null())?;
    let talker = start("talker", binary("talker", &["--ros-args", "-p", "rate:=100.0"]), Stdio::null())?;
    let output = reader.child.stdout.take().context("The reader has no output")?;
    std::thread::spawn(move || {
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        lines.try_for_each(|line| events.send(Event::Line(line)))
    });

    eprintln!(
        "talker (imu and chatter, 100 Hz) -> listener -> /statistics -> rclpy reader. End with Ctrl-C.\n\
         To watch it from another terminal: ROS_DOMAIN_ID={domain} cargo xtask run -- topic_monitor"
    );
    watch(&received, [reader, listener, talker], seconds.map(Duration::from_secs))
}

/// The events that the demo waits for.
enum Event {
    /// A line of the reader's.
    Line(String),
    /// Ctrl-C, or a signal to end.
    Interrupted,
}

/// Shows the reader's output, until the time is up or somebody ends it.
fn watch(
    events: &mpsc::Receiver<Event>,
    mut processes: [Process; 3],
    limit: Option<Duration>,
) -> Result<ExitCode> {
    let started = Instant::now();
    let mut table = Table::default();
    loop {
        if limit.is_some_and(|limit| started.elapsed() >= limit) {
            break;
        }
        if table.rows.is_empty() && started.elapsed() >= PATIENCE {
            break;
        }
        match events.recv_timeout(Duration::from_millis(100)) {
            Ok(Event::Line(line)) => table.show(Metric::parse(&line)?)?,
            Ok(Event::Interrupted) => break,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                for process in &mut processes {
                    process.check()?;
                }
            }
        }
    }
    if table.rows.is_empty() {
        let waited = started.elapsed().as_secs_f32();
        bail!(
            "No statistics came in {waited:.0} s. DDS needs a second or two to find the processes; if they never \
             find each other, a firewall may stop multicast and UDP on this machine. What they said is in {}",
            processes[0].log.parent().unwrap_or(Path::new("")).display()
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// A process of the demo; it ends with this.
struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    fn start(name: &'static str, mut command: Command, output: Stdio, logs: &Path) -> Result<Process> {
        let log = logs.join(format!("{}.log", name.replace(' ', "_")));
        let file = File::create(&log).with_context(|| format!("Cannot write {}", log.display()))?;
        end_with_this_process(&mut command);
        let child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(file)
            .spawn()
            .with_context(|| format!("The {name} cannot be started"))?;
        Ok(Process { name, child, log })
    }

    /// Errors if the process has ended.
    fn check(&mut self) -> Result<()> {
        let ended: Option<ExitStatus> = self.child.try_wait()?;
        if let Some(status) = ended {
            let said = fs::read_to_string(&self.log).unwrap_or_default();
            bail!("The {} has ended ({status}); it said:\n{}", self.name, said.trim_end());
        }
        Ok(())
    }
}

/// Has the kernel kill a child when this process dies, by whatever signal. Nothing but Linux has that.
///
/// More exactly, when the thread that starts the child ends: here the main thread.
fn end_with_this_process(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpid, getppid, set_parent_process_death_signal, Signal};
        let parent = getpid();
        let set = move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // If the parent has died before that, there is no signal.
            if getppid() == Some(parent) {
                Ok(())
            } else {
                Err(std::io::ErrorKind::Interrupted.into())
            }
        };
        // SAFETY: Between fork and exec `set` makes two system calls and neither allocates nor locks: an ErrorKind and
        // an Errno become io::Errors without an allocation.
        unsafe { std::os::unix::process::CommandExt::pre_exec(command, set) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A line of the reader's.
#[derive(Debug, Deserialize)]
struct Metric {
    source: String,
    metric: String,
    unit: String,
    window_start: i64,
    window_stop: i64,
    /// Data types and values; None is NaN.
    statistics: Vec<(u8, Option<f64>)>,
}

impl Metric {
    fn parse(line: &str) -> Result<Metric> {
        serde_json::from_str(line).with_context(|| format!("The reader printed {line:?}, which is no metric"))
    }

    fn value(&self, data_type: u8) -> String {
        let value = self.statistics.iter().find(|(kind, _)| *kind == data_type).and_then(|(_, value)| *value);
        value.map_or("NaN".to_owned(), |value| format!("{value:.3}"))
    }

    fn columns(&self) -> [String; 9] {
        let count = self
            .statistics
            .iter()
            .find(|(kind, _)| *kind == 5)
            .and_then(|(_, value)| *value)
            .unwrap_or_default();
        [
            self.source.clone(),
            self.metric.clone(),
            self.unit.clone(),
            format!("{:.3} s", (self.window_stop - self.window_start) as f64 * 1e-9),
            self.value(1),
            self.value(2),
            self.value(3),
            self.value(4),
            format!("{count}"),
        ]
    }
}

/// The headings, and how wide their columns are at least: the demo's own names fit.
const HEADINGS: [(&str, usize); 9] = [
    ("source", 18),
    ("metric", 14),
    ("unit", 4),
    ("window", 8),
    ("average", 9),
    ("min", 9),
    ("max", 9),
    ("std dev", 9),
    ("count", 6),
];

/// The latest window of each metric: in place on a terminal, as lines when piped.
#[derive(Default)]
struct Table {
    rows: Vec<[String; 9]>,
    shown: usize,
}

impl Table {
    fn show(&mut self, metric: Metric) -> Result<()> {
        let columns = metric.columns();
        let is_first = self.rows.is_empty();
        match self.rows.iter_mut().find(|row| row[..2] == columns[..2]) {
            Some(row) => *row = columns.clone(),
            None => self.rows.push(columns.clone()),
        }
        if std::io::stdout().is_terminal() {
            let term = Term::stdout();
            self.rows.sort();
            let width = usize::from(term.size().1);
            term.clear_last_lines(self.shown)?;
            for line in self.lines() {
                // A line that wraps would be two, and the next table would not be where this one is.
                term.write_line(&truncate_str(&line, width, ""))?;
            }
            self.shown = self.rows.len() + 1;
        } else {
            let mut out = std::io::stdout().lock();
            if is_first {
                writeln!(out, "{}", line(&headings(), &self.widths()))?;
            }
            writeln!(out, "{}", line(&columns, &self.widths()))?;
        }
        Ok(())
    }

    /// The headings and all rows, in columns that the widest text fits.
    fn lines(&self) -> Vec<String> {
        let widths = self.widths();
        std::iter::once(&headings()).chain(&self.rows).map(|row| line(row, &widths)).collect()
    }

    fn widths(&self) -> [usize; 9] {
        let mut widths = HEADINGS.map(|(_, width)| width);
        for row in &self.rows {
            for (width, text) in widths.iter_mut().zip(row) {
                *width = text.chars().count().max(*width);
            }
        }
        widths
    }
}

fn headings() -> [String; 9] {
    HEADINGS.map(|(heading, _)| heading.to_owned())
}

/// Columns of these widths: names to the left, numbers to the right.
fn line(columns: &[String; 9], widths: &[usize; 9]) -> String {
    let cells = columns.iter().zip(widths).enumerate().map(|(index, (text, &width))| {
        if index < 3 {
            format!("{text:<width$}")
        } else {
            format!("{text:>width$}")
        }
    });
    cells.collect::<Vec<_>>().join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_have_their_columns_in_the_same_places() {
        for sources in [["/listener:/chatter", "/listener:/imu"], ["/a/much/longer/name:/chatter", "/x:/y"]] {
            let mut table = Table::default();
            for (source, metric) in
                sources.into_iter().flat_map(|source| [(source, "message_age"), (source, "message_period")])
            {
                let numbers = ["1.000 s", "10.001", "9.755", "10.317", "0.105", "99"];
                let columns = [&[source, metric, "ms"][..], &numbers].concat();
                table.rows.push(
                    columns.iter().map(|text| text.to_string()).collect::<Vec<_>>().try_into().unwrap(),
                );
            }
            let lines = table.lines();
            let ends = |line: &str, texts: &[&str]| {
                texts.iter().map(|text| line.find(text).unwrap() + text.len()).collect::<Vec<_>>()
            };
            let numbers = ends(&lines[0], &["window", "average", " min", " max", "std dev", "count"]);
            for line in &lines[1..] {
                assert_eq!(
                    ends(line, &["1.000 s", "10.001", " 9.755", "10.317", "0.105", " 99"]),
                    numbers,
                    "{lines:#?}"
                );
                assert_eq!(line.find("message_"), lines[0].find("metric"), "{lines:#?}");
                assert_eq!(line.find(" ms"), lines[0].find(" unit"), "{lines:#?}");
            }
        }
    }

    #[test]
    fn a_metric_is_a_row_with_nan_where_nothing_was_measured() {
        let metric = Metric::parse(
            r#"{"source": "/listener:/chatter", "metric": "message_age", "unit": "ms", "window_start": 1000000000,
            "window_stop": 2000000000, "statistics": [[1, null], [3, null], [2, null], [5, 0.0], [4, null]]}"#,
        );
        let expected =
            ["/listener:/chatter", "message_age", "ms", "1.000 s", "NaN", "NaN", "NaN", "NaN", "0"];
        assert_eq!(metric.unwrap().columns(), expected.map(String::from));
    }
}
