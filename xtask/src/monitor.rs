//! The program topic_monitor: built and run, and measured under load.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::{
    bench::{alone, build, cargo},
    environment::Environment,
    finish,
};

/// Builds topic_monitor, which is not on PATH as installed programs are, and runs it where the caller is.
pub fn run(environment: &Environment, project: &Path, arguments: &[OsString]) -> Result<ExitCode> {
    let program = program(environment, project)?;
    finish(environment.command(&program).args(arguments), &program)
}

fn program(environment: &Environment, project: &Path) -> Result<PathBuf> {
    cargo(environment, project, &["build", "--quiet", "--release", "--package", "topic_statistics_monitor"])?;
    Ok(environment.target_dir().join("release/topic_monitor"))
}

/// A child process that ends with its handle.
pub struct Running(Child);

impl Running {
    pub fn start(command: &mut Command) -> Result<Self> {
        Ok(Self(alone(command)?.spawn()?))
    }

    /// The CPU time that it has taken so far, in seconds.
    pub fn cpu(&self) -> Result<f64> {
        cpu(Path::new(&format!("/proc/{}", self.0.id())))
    }

    /// The CPU time of its thread of this name, in seconds. NaN without one.
    pub fn cpu_of_thread(&self, name: &str) -> Result<f64> {
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.0.id()))? {
            let thread = thread?.path();
            if std::fs::read_to_string(thread.join("comm"))?.trim() == name {
                return cpu(&thread);
            }
        }
        Ok(f64::NAN)
    }
}

/// The CPU time of a process or a thread, by its directory in /proc, in seconds.
fn cpu(directory: &Path) -> Result<f64> {
    let stat = std::fs::read_to_string(directory.join("stat"))?;
    // Behind the name, which may have blanks, in parentheses; user and system time in ticks of 10 ms.
    let (_, fields) = stat.rsplit_once(") ").context("/proc/PID/stat has another form")?;
    let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.collect::<Result<Vec<_>, _>>()?.iter().sum::<f64>() / 100.0)
}

impl Running {
    /// The memory that it has resident, in MB.
    pub fn memory(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = resident.and_then(|size| size.trim().trim_end_matches(" kB").parse::<f64>().ok());
        Ok(kilobytes.context("/proc/PID/status has another form")? / 1000.0)
    }

    /// The lines that it writes, as they come. Its output has to be piped.
    pub fn lines(&mut self) -> Result<Receiver<String>> {
        let output = BufReader::new(self.0.stdout.take().context("The program has no output")?);
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Ok(lines)
    }
}

impl Drop for Running {
    /// Ends it by SIGTERM, and by SIGKILL if it takes too long: a killed process of DDS blocks the processes that it
    /// was connected to.
    fn drop(&mut self) {
        if let Some(process) = rustix::process::Pid::from_raw(self.0.id() as i32) {
            let _signalled = rustix::process::kill_process(process, rustix::process::Signal::TERM);
        }
        let begun = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ended = (self.0.kill(), self.0.wait());
    }
}

/// 20 topics at 100 Hz, one at 5000 Hz, an Image of 1 MB at 30 Hz: what topic_monitor misses, and its CPU beside that
/// of a minimal rclpy subscriber of the same topics in the same run.
pub fn bench(environment: &Environment, project: &Path, seconds: f64) -> Result<ExitCode> {
    let (program, programs) = (program(environment, project)?, build(environment, project)?);
    let load = |what| Running::start(environment.command(programs.join("bench_load")).arg(what));
    let _load = (load("imu")?, load("fast")?, load("image")?);
    let subscriber = project.join("benches/subscriber.py");
    let mut subscriber =
        Running::start(environment.command("python3").arg(subscriber).stdout(Stdio::piped()))?;
    let mut monitor =
        Running::start(environment.command(program).args(["--json", "/load/*"]).stdout(Stdio::piped()))?;
    let (objects, counts) = (monitor.lines()?, subscriber.lines()?);

    // Both hear all topics, then the time begins.
    let mut topics = BTreeMap::new();
    while topics.len() < 22 || topics.values().any(|object| received(object) == 0) {
        take(
            &mut topics,
            objects.recv_timeout(Duration::from_secs(30)).context("The monitor hears nothing")?,
        )?;
    }
    counts.recv_timeout(Duration::from_secs(30)).context("The rclpy subscriber hears nothing")?;
    let last_count = || counts.try_iter().last().and_then(|count| count.parse::<u64>().ok());
    let (started, before) = (Instant::now(), (monitor.cpu()?, subscriber.cpu()?));
    let mut count = (None, 0);
    while started.elapsed().as_secs_f64() < seconds {
        if let Ok(line) = objects.recv_timeout(Duration::from_millis(100)) {
            take(&mut topics, line)?;
        }
        if let Some(new) = last_count() {
            count = (count.0.or(Some((new, Instant::now()))), new);
        }
    }
    let (after, elapsed) = ((monitor.cpu()?, subscriber.cpu()?), started.elapsed().as_secs_f64());
    println!("{:<14} {:>9} {:>7} {:>6} {:>6}", "topic", "rate Hz", "received", "lost", "order");
    for (topic, object) in &topics {
        let total =
            |of: &str| object["total"][of].as_u64().map_or_else(|| "-".to_owned(), |count| count.to_string());
        println!(
            "{topic:<14} {:>9.1} {:>8} {:>6} {:>6}",
            object["rate"].as_f64().unwrap_or(f64::NAN),
            total("received"),
            total("lost"),
            total("out_of_order")
        );
    }
    let lost: u64 = topics.values().filter_map(|object| object["total"]["lost"].as_u64()).sum();
    let rate: f64 = topics.values().filter_map(|object| object["rate"].as_f64()).sum();
    let (monitor, subscriber) = (after.0 - before.0, after.1 - before.1);
    let of_subscriber =
        count.0.map_or(f64::NAN, |(first, at)| (count.1 - first) as f64 / at.elapsed().as_secs_f64());
    println!("topic_monitor: {lost} lost, {rate:.0} messages/s, {:.1} % CPU", monitor / elapsed * 100.0);
    println!("rclpy:         {of_subscriber:.0} messages/s, {:.1} % CPU", subscriber / elapsed * 100.0);
    println!("ratio of CPU:  {:.2}", monitor / subscriber);
    Ok(ExitCode::SUCCESS)
}

fn received(object: &serde_json::Value) -> u64 {
    object["received"].as_u64().unwrap_or_default()
}

fn take(topics: &mut BTreeMap<String, serde_json::Value>, line: String) -> Result<()> {
    let object: serde_json::Value =
        serde_json::from_str(&line).context("What the monitor said cannot be read")?;
    // Others are no windows.
    if object["window_start"].is_i64() {
        topics.insert(object["topic"].as_str().unwrap_or_default().to_owned(), object);
    }
    Ok(())
}
