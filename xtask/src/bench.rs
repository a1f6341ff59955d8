//! `cargo xtask bench`: the cost of statistics, as ratios within one run.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
};

use anyhow::{bail, Context, Result};
use serde::Deserialize;

use crate::{domain::domain, environment::Environment};

/// Messages, windows and counts; ends with one line for scripts.
pub fn run(environment: &Environment, project: &Path) -> Result<ExitCode> {
    cargo(environment, project, &["bench", "--package", "benchmarks", "--bench", "cost", "--", "--quiet"])?;
    eprintln!("Counting allocations, bytes and instructions ...");
    let counted = cargo(
        environment,
        project,
        &["test", "--release", "--package", "benchmarks", "--tests", "--", "--nocapture", "--test-threads=1"],
    )?;
    let count = |name: &str| {
        let value = counted.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or("NA").to_owned()
    };

    let criterion = environment.target_dir().join("criterion");
    let time = |of: &str| median(&criterion.join(of));
    let (clock, lock) = (time("floor/clock")?, time("floor/spin_mutex")?);
    println!("{:<40} {:>9} {:>15} {:>15}", "", "ns", "of the clock", "of a lock");
    for (what, of) in [
        ("the clock", "floor/clock"),
        ("an empty call under std's Mutex", "floor/std_mutex"),
        ("an empty call under our lock", "floor/spin_mutex"),
        ("the clock under our lock", "floor/clock_in_spin_mutex"),
        ("one sample", "collector/summary"),
        ("one sample, with its distribution", "collector/summary_with_distribution"),
        ("a quantile of a distribution", "collector/quantile"),
        ("merging two distributions", "collector/merge"),
        ("age and period collectors", "collector/age_and_period"),
        ("sequence tracker, 1 publisher", "collector/sequence_of_1_publishers"),
        ("sequence tracker, 64 publishers", "collector/sequence_of_64_publishers"),
        ("message, without the clock", "default/record"),
        ("message", "default/record_with_clock"),
        ("message, all metrics, without the clock", "all_metrics/record"),
        ("message, all metrics", "all_metrics/record_with_clock"),
        ("message of fixed size", "size/fixed_without"),
        ("message of fixed size, with its size", "size/fixed_with"),
        ("message with a string", "size/string_without"),
        ("message with a string, with its size", "size/string_with"),
        ("message and end of a window", "default/end_window"),
        ("building the messages of a window", "default/build_messages"),
        ("two monotonic clocks", "code/two_monotonic_clocks"),
        ("a stopwatch's guard", "code/stopwatch"),
        ("a counter", "code/counter"),
        ("judging a window of 1000 subscriptions", "health/judge_1000"),
        ("the same, where all look back", "health/judge_1000_undecided"),
        ("the health of 1000 subscriptions", "health/statuses_1000"),
    ] {
        let time = time(of)?;
        println!("{what:<40} {time:>9.1} {:>15.2} {:>15.2}", time / clock, time / lock);
    }
    println!(
        "record_ns={:.1} clock_ns={clock:.1} record_with_clock_ns={:.1} size_ns={:.1} instructions_per_message={} \
         allocations_per_message={} c_allocations_beyond_plain={} bytes_per_subscription={} distribution_ns={:.1} \
         bytes_per_distribution={}",
        time("default/record")?,
        time("default/record_with_clock")?,
        time("size/fixed_with")? - time("size/fixed_without")?,
        count("instructions_per_message"),
        count("allocations_per_message"),
        count("c_allocations_beyond_plain"),
        count("bytes_per_subscription"),
        time("collector/summary_with_distribution")? - time("collector/summary")?,
        count("bytes_per_distribution"),
    );
    Ok(ExitCode::SUCCESS)
}

/// The median that criterion has estimated last, in nanoseconds.
fn median(directory: &Path) -> Result<f64> {
    #[derive(Deserialize)]
    struct Estimates {
        median: Estimate,
    }
    #[derive(Deserialize)]
    struct Estimate {
        point_estimate: f64,
    }
    let file = directory.join("new/estimates.json");
    let text = fs::read_to_string(&file).with_context(|| format!("Cannot read {}", file.display()))?;
    let estimates: Estimates = serde_json::from_str(&text)?;
    Ok(estimates.median.point_estimate)
}

/// The report of the benchmarks' listener.
#[derive(Deserialize)]
struct Listened {
    received: u64,
    windows: u64,
    /// Windows that did not begin where the one before ended.
    gaps: u64,
    seconds: f64,
    cpu: f64,
    /// CPU seconds from the start until the measuring began.
    start_cpu: f64,
    p50_us: u64,
    p99_us: u64,
    max_us: u64,
    peak_kb: u64,
}

impl Listened {
    /// CPU seconds for a million messages.
    fn cpu_per_million(&self) -> f64 {
        self.cpu * 1e6 / self.received.max(1) as f64
    }
}

/// A talker and a listener as processes, with statistics and without, in alternating pairs.
pub fn end_to_end(environment: &Environment, project: &Path, pairs: usize, seconds: f64) -> Result<ExitCode> {
    let programs = build(environment, project)?;
    println!(
        "{:<34} {:>10} {:>22} {:>22} {:>16} {:>24} {:>16}",
        "median of the runs",
        "received",
        "CPU s per million",
        "ratio of pairs",
        "p50/p99 us",
        "same with statistics",
        "peak kB"
    );
    for (name, topic_type, rate, without, with) in [
        ("Imu 100 Hz", "imu", 100.0, ["off", "node"], ["on", "node"]),
        ("Imu 1000 Hz", "imu", 1000.0, ["off", "node"], ["on", "node"]),
        ("Imu 5000 Hz", "imu", 5000.0, ["off", "node"], ["on", "node"]),
        ("Imu 5000 Hz, all metrics", "imu", 5000.0, ["off", "node"], ["all", "node"]),
        ("Imu 5000 Hz, turned off", "imu", 5000.0, ["off", "node"], ["disabled", "node"]),
        ("Imu as fast as it goes", "imu", 0.0, ["off", "node"], ["on", "node"]),
        ("Imu 5000 Hz, worker", "imu", 5000.0, ["off", "worker"], ["on", "worker"]),
        ("worker against node, both with", "imu", 5000.0, ["on", "node"], ["on", "worker"]),
        ("Image of 1 MB, 30 Hz", "image", 30.0, ["off", "node"], ["on", "node"]),
    ] {
        let listen = |[statistics, scope]: [&str; 2]| {
            listen(environment, &programs, topic_type, rate, statistics, scope, seconds)
        };
        let mut runs = vec![];
        for pair in 0..pairs {
            // Alternating, so that a drift of the machine is in both.
            runs.push(match pair % 2 {
                0 => (listen(without)?, listen(with)?),
                _ => {
                    let with = listen(with)?;
                    (listen(without)?, with)
                }
            });
        }
        let middle = |of: &dyn Fn(&(Listened, Listened)) -> f64| quantile(runs.iter().map(of).collect(), 0.5);
        let ratios: Vec<f64> =
            runs.iter().map(|(without, with)| with.cpu_per_million() / without.cpu_per_million()).collect();
        println!(
            "{name:<34} {:>10.0} {:>9.2} -> {:>9.2} {:>8.3} ({:.3} to {:.3}) {:>9.0}/{:<9.0} {:>9.0}/{:<9.0} {:>9.0} -> {:.0}",
            middle(&|(_, with)| with.received as f64 / with.seconds),
            middle(&|(without, _)| without.cpu_per_million()),
            middle(&|(_, with)| with.cpu_per_million()),
            quantile(ratios.clone(), 0.5),
            quantile(ratios.clone(), 0.25),
            quantile(ratios, 0.75),
            middle(&|(without, _)| without.p50_us as f64),
            middle(&|(without, _)| without.p99_us as f64),
            middle(&|(_, with)| with.p50_us as f64),
            middle(&|(_, with)| with.p99_us as f64),
            middle(&|(without, _)| without.peak_kb as f64),
            middle(&|(_, with)| with.peak_kb as f64),
        );
        let worst = runs.iter().map(|(_, with)| with.max_us).max().unwrap_or_default();
        println!(
            "  (to the start, CPU ms: {:.0} -> {:.0}; worst latency with statistics: {worst} us)",
            middle(&|(without, _)| without.start_cpu * 1e3),
            middle(&|(_, with)| with.start_cpu * 1e3),
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// A node with more and more subscriptions.
pub fn scale(environment: &Environment, project: &Path, seconds: u64) -> Result<ExitCode> {
    let programs = build(environment, project)?;
    for count in [1, 10, 100, 1000] {
        let mut command = environment.command(programs.join("bench_many"));
        command.args([count.to_string(), seconds.to_string()]);
        println!(
            "{count:>5} subscriptions: {}",
            output(&mut alone(&mut command)?.stdout(Stdio::piped()).spawn()?)?
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Records of real-time priority, while a thread of a priority in between keeps the windows' end from running.
pub fn contention(environment: &Environment, project: &Path, seconds: f64) -> Result<ExitCode> {
    let programs = build(environment, project)?;
    let mut command = environment.command(programs.join("bench_contention"));
    println!("{}", output(&mut alone(command.arg(seconds.to_string()))?.stdout(Stdio::piped()).spawn()?)?);
    Ok(ExitCode::SUCCESS)
}

/// 1e8 messages recorded; and a listener for ten minutes at 2000 Hz: its windows, and its memory beside that of a short
/// run.
pub fn soak(environment: &Environment, project: &Path, seconds: f64) -> Result<ExitCode> {
    let programs = build(environment, project)?;
    cargo(
        environment,
        project,
        &[
            "test",
            "--release",
            "--quiet",
            "--package",
            "benchmarks",
            "--test",
            "it",
            "--",
            "--ignored",
            "message::soak",
        ],
    )?;
    println!("100000000 messages recorded: memory constant, every message in its window");
    for seconds in [seconds / 60.0, seconds] {
        let run = listen(environment, &programs, "imu", 2000.0, "all", "node", seconds)?;
        println!(
            "{:>6.0} s: {} messages, {} windows, {} gaps between them, peak memory {} kB",
            run.seconds, run.received, run.windows, run.gaps, run.peak_kb
        );
    }
    Ok(ExitCode::SUCCESS)
}

pub fn build(environment: &Environment, project: &Path) -> Result<PathBuf> {
    cargo(environment, project, &["build", "--release", "--quiet", "--package", "benchmarks", "--examples"])?;
    Ok(environment.target_dir().join("release/examples"))
}

fn listen(
    environment: &Environment,
    programs: &Path,
    topic_type: &str,
    rate: f64,
    statistics: &str,
    scope: &str,
    seconds: f64,
) -> Result<Listened> {
    let mut listener = environment.command(programs.join("bench_listener"));
    listener.args([topic_type, statistics, scope, &seconds.to_string()]);
    let mut listener = alone(&mut listener)?.stdout(Stdio::piped()).spawn()?;
    let mut talker = environment.command(programs.join("bench_talker"));
    let listened = match alone(talker.args([topic_type, &rate.to_string()]))?.spawn() {
        Ok(mut talker) => {
            let listened = output(&mut listener);
            let _ended = (talker.kill(), talker.wait());
            listened
        }
        Err(error) => {
            let _ended = (listener.kill(), listener.wait());
            Err(error.into())
        }
    };
    serde_json::from_str(&listened?).context("What the listener said cannot be read")
}

/// Gives a program a domain of our own, on this machine only.
pub fn alone(command: &mut Command) -> Result<&mut Command> {
    let domain = domain().context(
        "Programs of this machine use all ROS domains from 1 to 101; `ss -ulpn` shows who has UDP ports from 7650 on",
    )?;
    Ok(command
        .env("ROS_DOMAIN_ID", domain.to_string())
        .env("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        .stdin(Stdio::null()))
}

/// The output of a child, piped, until it ends.
fn output(child: &mut Child) -> Result<String> {
    let mut text = String::new();
    let output = child.stdout.as_mut().context("The program has no output")?;
    std::io::Read::read_to_string(output, &mut text)?;
    let status = child.wait()?;
    if !status.success() {
        bail!("A program of the benchmarks failed ({status}); it says above why");
    }
    Ok(text.trim().to_owned())
}

/// Interpolates between two values: the median of an even count is the mean of the middle two.
fn quantile(mut values: Vec<f64>, quantile: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = values.len().saturating_sub(1) as f64 * quantile;
    match (values.get(place.floor() as usize), values.get(place.ceil() as usize)) {
        (Some(below), Some(above)) => below + (above - below) * place.fract(),
        _ => f64::NAN,
    }
}

/// Runs cargo; returns its output.
pub fn cargo(environment: &Environment, project: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = environment.command("cargo");
    let child = command.current_dir(project).args(arguments).stdout(Stdio::piped()).spawn();
    output(&mut child.context("cargo cannot be started")?)
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn the_median_of_an_even_count_is_the_mean_of_the_middle_two() {
        let eight = || vec![8.0, 1.0, 7.0, 2.0, 6.0, 3.0, 5.0, 4.0];
        assert_eq!([0.25, 0.5, 0.75].map(|q| quantile(eight(), q)), [2.75, 4.5, 6.25]);
        assert_eq!(quantile(vec![3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(vec![7.0], 0.75), 7.0);
    }

    #[test]
    fn no_runs_have_no_median() {
        assert!(quantile(vec![], 0.5).is_nan());
    }
}
