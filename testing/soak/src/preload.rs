// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask soak --scenario preload`: nodes in Python with the preloaded statistics, measured from outside.
//!
//! Two talkers, a node (the host) and the same node without statistics (the control) publish, subscribe, serve and call
//! (`host.py`). In each cycle they create and destroy a node with endpoints, and fork; now and then a talker is
//! replaced. At the end of a cycle all pause. Then the sums of all windows have to equal the processes' own counts, and
//! the host has to have received all messages that the talkers have sent.

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{ensure, Context, Result};
use serde::Deserialize;
use tempfile::TempDir;
use test_support::{command, domain, preload, Program};

use crate::{
    judge::check_growth,
    measured::{usage, Usage},
    run::{clock, program, wait_for},
};

/// The talkers' topics; the host and the control subscribe to all.
const TOPICS: [&str; 2] = ["/soak_0", "/soak_1"];
/// A talker is replaced in every third cycle, in turns by SIGKILL and in an orderly way.
const REPLACING: usize = 3;
/// Cycles until the numbers of threads and descriptors are taken to which they have to come back.
const WARM_UP_CYCLES: usize = 2;
/// The highest rise of the heap beyond the control's over the second half of the run, in kB.
const HIGHEST_RISE: f64 = 300.0;

#[derive(clap::Args)]
pub struct Options {
    /// How long
    #[arg(long)]
    hours: f64,
    /// The time between two lines, in seconds
    #[arg(long, default_value_t = 60.0)]
    interval: f64,
    /// The length of a cycle, in seconds
    #[arg(long, default_value_t = 10.0, hide = true)]
    cycle: f64,
}

/// What a process reports.
#[derive(Default, Deserialize)]
struct Report {
    count: BTreeMap<String, u64>,
    /// By sender.
    received: BTreeMap<String, u64>,
    /// Of the reader: by source and metric.
    sums: BTreeMap<String, u64>,
    /// The heap in use, in bytes.
    heap: u64,
    /// Of the statistics, on the thread of the executor.
    allocations: u64,
    /// Of the topic that it publishes.
    subscriptions: u64,
}

impl Report {
    fn count(&self, what: &str) -> u64 {
        self.count.get(what).copied().unwrap_or(0)
    }
}

struct Talker {
    name: String,
    topic: &'static str,
    program: Program,
}

impl Talker {
    /// Returns its sources and metrics, with the sums that their windows must have.
    fn sums(&self, own: &Report) -> [(String, u64); 3] {
        let Self { name, topic, .. } = self;
        [
            (format!("/{name}:{topic} publish_duration_ms"), own.count("published")),
            (format!("/{name}:/host calls"), own.count("calls")),
            (format!("/{name}:/host responses"), own.count("responses")),
        ]
    }
}

struct Soak {
    domain: u32,
    /// Where the standard error of the processes with statistics goes.
    errors: PathBuf,
    _directory: TempDir,
    reader: Program,
    host: Program,
    control: Program,
    talkers: Vec<Talker>,
    next_incarnation: u64,
    /// Sources and metrics with the sums that their windows must have, of processes that have ended.
    ended: BTreeMap<String, u64>,
    /// Messages that an ended talker has sent.
    sent: BTreeMap<String, u64>,
    killed: u64,
}

/// What was seen at the end of a cycle.
struct Sample {
    messages: u64,
    calls: u64,
    /// Calls of talkers that have not ended, without a response: the middleware may lose one.
    unanswered: u64,
    /// How many sums were compared.
    compared: usize,
    allocations: u64,
    host: Usage,
    control: Usage,
    heap: u64,
    /// Heap in use of the host less the control's, in kB.
    difference: f64,
}

pub fn run(options: &Options) -> Result<()> {
    let time = |seconds: f64, what: &'static str| Duration::try_from_secs_f64(seconds).context(what);
    let length = time(options.hours * 3600.0, "--hours is not a time")?;
    let interval = time(options.interval, "--interval is not a time")?;
    let cycle = time(options.cycle, "--cycle is not a time")?;
    let mut soak = Soak::begin()?;
    println!(
        "{:>9} {:>9} {:>8} {:>10} {:>8} {:>11} {:>9} {:>8} {:>8} {:>9} {:>7} {:>11} {:>6}",
        "time",
        "messages",
        "calls",
        "unanswered",
        "compared",
        "allocations",
        "memory_kB",
        "control",
        "heap_kB",
        "diff_kB",
        "threads",
        "descriptors",
        "killed"
    );
    let (began, mut last) = (Instant::now(), Instant::now());
    let mut baseline: Option<[u64; 4]> = None;
    let mut growth: Vec<(f64, f64)> = vec![];
    let mut messages = 0;
    for number in 0.. {
        let sample = soak.cycle(number, cycle)?;
        let elapsed = began.elapsed();
        growth.push((elapsed.as_secs_f64() / 3600.0, sample.difference));
        messages = sample.messages;
        let is_over = elapsed >= length && number + 1 >= REPLACING;
        if last.elapsed() + cycle / 2 >= interval || is_over {
            last = Instant::now();
            println!(
                "{:>9} {:>9} {:>8} {:>10} {:>8} {:>11} {:>9} {:>8} {:>8.0} {:>9.1} {:>7} {:>11} {:>6}",
                clock(elapsed),
                sample.messages,
                sample.calls,
                sample.unanswered,
                sample.compared,
                sample.allocations,
                sample.host.memory,
                sample.control.memory,
                sample.heap as f64 / 1e3,
                sample.difference,
                format!("{}/{}", sample.host.threads, sample.control.threads),
                format!("{}/{}", sample.host.descriptors, sample.control.descriptors),
                soak.killed
            );
        }
        ensure!(
            sample.allocations == 0,
            "The statistics made {} allocations for messages",
            sample.allocations
        );
        let now =
            [&sample.host, &sample.control].map(|process| [process.threads, process.descriptors]).concat();
        ensure!(now[0] == now[2] + 1, "The host has {} threads, the control {}", now[0], now[2]);
        match baseline {
            None if number + 1 >= WARM_UP_CYCLES => baseline = now.try_into().ok(),
            Some(before) => ensure!(
                now == before,
                "Threads and descriptors of the host and the control are {now:?}; after the warm-up {before:?}"
            ),
            None => {}
        }
        check_growth(&growth, HIGHEST_RISE, "The host")?;
        if is_over {
            break;
        }
    }
    soak.end()?;
    println!("passed: {messages} messages in {}", clock(began.elapsed()));
    Ok(())
}

impl Soak {
    fn begin() -> Result<Self> {
        let (domain, directory) = (domain(), tempfile::tempdir()?);
        let errors = directory.path().join("errors");
        File::create(&errors)?;
        let start = |arguments: &[&str], is_measured| start(arguments, domain, &errors, is_measured);
        let node =
            |name, out| [&[name, "--publish", out, "--serve", name, "--subscribe"][..], &TOPICS].concat();
        let mut soak = Self {
            reader: start(&["reader", "--reader"], false)?,
            host: start(&node("host", "host_out"), true)?,
            control: start(&node("control", "control_out"), false)?,
            domain,
            errors,
            _directory: directory,
            talkers: vec![],
            next_incarnation: 1,
            ended: BTreeMap::new(),
            sent: BTreeMap::new(),
            killed: 0,
        };
        for topic in TOPICS {
            let talker = soak.talker(topic)?;
            soak.talkers.push(talker);
        }
        let reader = &mut soak.reader;
        wait_for("windows of the host", || {
            Ok(TOPICS.iter().all(|topic| {
                report(reader).is_ok_and(|read| read.sums.contains_key(&format!("/host:{topic} message_age")))
            }))
        })?;
        Ok(soak)
    }

    /// Starts a talker, and waits until its windows are read, and its topic has both subscriptions.
    fn talker(&mut self, topic: &'static str) -> Result<Talker> {
        let name = format!("talker_{}", self.next_incarnation);
        self.next_incarnation += 1;
        let arguments = [&name, "--publish", topic, "--call", "host"];
        let mut program = start(&arguments, self.domain, &self.errors, true)?;
        let source = format!("/{name}:{topic} publish_duration_ms");
        let reader = &mut self.reader;
        wait_for("windows of a talker", || {
            Ok(report(reader)?.sums.contains_key(&source)
                && report(&mut program)?.subscriptions == TOPICS.len() as u64)
        })?;
        Ok(Talker { name, topic, program })
    }

    fn all(&mut self, request: &str) -> Result<()> {
        let talkers = self.talkers.iter_mut().map(|talker| &mut talker.program);
        for program in [&mut self.host, &mut self.control].into_iter().chain(talkers) {
            program.request(request);
        }
        Ok(())
    }

    /// Creates and destroys, forks, replaces a talker; then pauses, and compares.
    fn cycle(&mut self, number: usize, length: Duration) -> Result<Sample> {
        let began = Instant::now();
        let until = |part: f64| std::thread::sleep(length.mul_f64(part).saturating_sub(began.elapsed()));
        self.all("run")?;
        for program in [&mut self.host, &mut self.control] {
            program.request("create");
            let statuses = program.request("fork");
            ensure!(statuses == "[0, 0]", "Children of fork end with {statuses}");
        }
        until(0.3);
        for program in [&mut self.host, &mut self.control] {
            program.request("drop");
        }
        until(0.4);
        let before = report(&mut self.host)?.allocations;
        until(0.8);
        let after = report(&mut self.host)?.allocations;
        ensure!(before > 0, "The allocations of the statistics are not counted");
        self.all("pause")?;
        let mut sample = self.compare()?;
        sample.allocations = after - before;
        if number % REPLACING == REPLACING - 1 {
            self.replace_a_talker(number / REPLACING)?;
        }
        until(1.0);
        Ok(sample)
    }

    /// Waits until nothing is under way, and all sums are those that the processes have counted.
    fn compare(&mut self) -> Result<Sample> {
        let mut difference = String::new();
        let mut sample = None;
        let waited = wait_for("equal counts", || {
            let (host, control) = (report(&mut self.host)?, report(&mut self.control)?);
            let mut expected = self.ended.clone();
            let mut sent = self.sent.clone();
            let mut unanswered = 0;
            let received: u64 = host.received.values().sum();
            expected.insert("/host:/host_out publish_duration_ms".to_owned(), host.count("published"));
            expected.insert("/host:/host requests".to_owned(), host.count("requests"));
            for talker in &mut self.talkers {
                let own = report(&mut talker.program)?;
                expected.extend(talker.sums(&own));
                sent.insert(talker.name.clone(), own.count("published"));
                unanswered += own.count("calls") - own.count("responses");
            }
            let read = report(&mut self.reader)?.sums;
            let ages = TOPICS.map(|topic| read.get(&format!("/host:{topic} message_age")).copied());
            let unequal = expected.iter().find(|(source, expected)| read.get(*source) != Some(*expected));
            let lost = sent.iter().find(|(talker, sent)| {
                [&host, &control]
                    .iter()
                    .any(|process| process.received.get(*talker).copied().unwrap_or(0) != **sent)
            });
            difference = format!(
                "{unequal:?} is {:?}; {lost:?} of {:?}; {received} are {ages:?}",
                unequal.map(|(source, _)| read.get(source)),
                host.received
            );
            let is_equal = ages.iter().copied().sum::<Option<u64>>() == Some(received);
            if unequal.is_some() || lost.is_some() || !is_equal {
                return Ok(false);
            }
            sample = Some(Sample {
                messages: received + host.count("published"),
                calls: host.count("requests"),
                unanswered,
                compared: expected.len() + sent.len() + 1,
                allocations: 0,
                host: usage(self.host.id())?,
                control: usage(self.control.id())?,
                heap: host.heap,
                difference: (host.heap as f64 - control.heap as f64) / 1e3,
            });
            Ok(true)
        });
        waited.with_context(|| difference)?;
        check(&self.errors)?;
        sample.context("no sample")
    }

    /// Ends a talker, in turns by SIGKILL and in an orderly way, and starts another. All pause.
    fn replace_a_talker(&mut self, number: usize) -> Result<()> {
        let place = number % TOPICS.len();
        let new = self.talker(TOPICS[place])?;
        let mut old = std::mem::replace(&mut self.talkers[place], new);
        let own = report(&mut old.program)?;
        self.ended.extend(old.sums(&own));
        self.sent.insert(old.name, own.count("published"));
        if number / TOPICS.len() % 2 == 0 {
            old.program.signal("KILL");
            self.killed += 1;
        }
        old.program.end();
        Ok(())
    }

    fn end(self) -> Result<()> {
        let talkers = self.talkers.into_iter().map(|talker| talker.program);
        talkers.chain([self.host, self.control, self.reader]).for_each(Program::end);
        check(&self.errors)
    }
}

fn start(arguments: &[&str], domain: u32, errors: &Path, is_measured: bool) -> Result<Program> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/host.py");
    let mut command = match is_measured {
        true => command(program("topic_statistics")?, &["run", "--", "python3", script], domain),
        false => command("python3", &[script], domain),
    };
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let counting = preload::library("count_malloc").context("There is no C compiler")?;
    preload::preload(&mut command, &counting);
    if is_measured {
        command.stderr(File::options().append(true).open(errors)?);
    }
    Ok(command.spawn()?.into())
}

/// Errors if the library has written a line on standard error. rclpy has lines of its own.
fn check(errors: &Path) -> Result<()> {
    let errors = std::fs::read_to_string(errors)?;
    ensure!(!errors.contains("topic_statistics"), "There are lines on standard error: {errors}");
    Ok(())
}

fn report(program: &mut Program) -> Result<Report> {
    let answer = program.request("report");
    serde_json::from_str(&answer).with_context(|| format!("{answer:?} is no report"))
}
