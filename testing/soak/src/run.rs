// SPDX-License-Identifier: Apache-2.0

//! The parent: starts the processes, has them create, drop, stop and end, and judges their reports.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{bail, ensure, Context, Result};
use test_support::{command, domain, Program};

use crate::{
    judge,
    listener::{Counted, Report, Row},
    measured::{cpu, usage, Usage},
    reader::Read,
    talker::{PROCESSES, RATE, TOPICS},
};

/// How long a condition at the start and at the end may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Fast DDS sends a heartbeat every 3 s. A reader that was stopped at each of them could not ask for the messages that
/// it has missed.
const SHORTEST_CYCLE: Duration = Duration::from_secs(4);
const LONGEST_CYCLE: Duration = Duration::from_secs(10);
/// How long the listener's worker is held up once in a cycle: its queues hold 100 ms.
const STALL: Duration = Duration::from_millis(300);
/// Cycles until the numbers of threads and descriptors are taken to which they have to come back.
const WARM_UP_CYCLES: usize = 4;
/// The part of the messages that are to be sent that has to be sent: while a talker is replaced, its topics are silent.
const LOWEST_LOAD: f64 = 0.8;
/// The depth of the history of `/statistics`. Fast DDS keeps the memory of messages that waited in it.
const HISTORY: u64 = 2000;
/// The highest rise of the heap beyond the control's, over the second half of the run, in kB. It has room for bounded
/// memory: the publishers of the topics take 282 kB more when each topic has its 65th, and Fast DDS's list of the
/// messages that a slow reader has not acknowledged takes 96 kB. A leak of 256 bytes for each window of a subscription
/// is 13 kB a second.
const HIGHEST_RISE: f64 = 1000.0;

#[derive(clap::Args)]
pub struct Options {
    /// How long
    #[arg(long)]
    hours: f64,
    /// The time between two lines, in seconds
    #[arg(long, default_value_t = 60.0)]
    interval: f64,
    /// The length of a window, in ms
    #[arg(long, default_value_t = 1000, hide = true)]
    window: u64,
}

/// The processes of a run.
struct Soak {
    domain: u32,
    window: u64,
    listener: Program,
    control: Program,
    /// It is never stopped.
    reader: Program,
    /// It is stopped now and then.
    stopped: Program,
    /// By process, with the incarnation.
    talkers: Vec<(u64, Program)>,
    next_incarnation: u64,
    /// The messages of ended talkers, by incarnation: topics and counts.
    published: BTreeMap<u64, Vec<(usize, u64)>>,
    /// Processor time of the processes that have ended, in seconds.
    cpu_of_ended: f64,
    killed: u64,
}

/// The state of all subscriptions at one time.
struct Sample {
    messages: u64,
    lost: u64,
    /// By the senders' numbers.
    lost_truth: u64,
    /// Subscriptions with losses unknown to the library.
    unknown: usize,
    windows: u64,
    missing: u64,
    listener: Usage,
    control: Usage,
    /// Heap in use of the listener less the control's, in kB.
    difference: f64,
}

/// Returns a program that was built with this one.
pub fn program(name: &str) -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    ensure!(path.is_file(), "{} is not built; `cargo xtask soak` builds it", path.display());
    Ok(path)
}

fn start(arguments: &[&str], domain: u32) -> Result<Program> {
    let mut command = command(std::env::current_exe()?, arguments, domain);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    Ok(child.with_context(|| format!("soak {} cannot be started", arguments.join(" ")))?.into())
}

fn ask(program: &mut Program, request: &str) -> Result<Report> {
    let answer = program.request(request);
    serde_json::from_str(&answer).with_context(|| format!("{answer:?} is no answer to {request:?}"))
}

fn read(reader: &mut Program) -> Result<Read> {
    let answer = reader.request("report");
    serde_json::from_str(&answer).with_context(|| format!("{answer:?} is no report of a reader"))
}

pub fn run(options: &Options) -> Result<()> {
    let length = Duration::try_from_secs_f64(options.hours * 3600.0).context("--hours is not a time")?;
    let interval = Duration::try_from_secs_f64(options.interval).context("--interval is not a time")?;
    let cycle = (interval / 6).clamp(SHORTEST_CYCLE, LONGEST_CYCLE);
    let domain = domain();
    let window = options.window.to_string();
    println!(
        "{TOPICS} topics, {} publishers' nodes in {PROCESSES} processes, {} messages/s, windows of {} ms, \
         domain {domain}",
        PROCESSES * 4,
        TOPICS as u32 * RATE,
        options.window
    );
    let mut soak = Soak {
        domain,
        window: options.window,
        reader: start(&["reader"], domain)?,
        stopped: start(&["reader"], domain)?,
        listener: start(&["listener", "--window", &window], domain)?,
        control: start(&["listener", "--window", &window, "--plain"], domain)?,
        talkers: vec![],
        next_incarnation: 1,
        published: BTreeMap::new(),
        cpu_of_ended: 0.0,
        killed: 0,
    };
    soak.begin()?;

    println!(
        "{:>9} {:>11} {:>9} {:>9} {:>7} {:>9} {:>7} {:>9} {:>10} {:>7} {:>11} {:>6} {:>6} {:>6}",
        "time",
        "messages",
        "lost",
        "truth",
        "unknown",
        "windows",
        "missing",
        "memory_kB",
        "diff_kB",
        "threads",
        "descriptors",
        "cpu%",
        "all%",
        "killed"
    );
    let cycles = length.as_secs_f64() / cycle.as_secs_f64();
    // The losses of a topic are known for 256 publishers.
    let killing = (cycles / (PROCESSES * 100) as f64).ceil().max(3.0) as usize;
    let mut baseline: Option<Usage> = None;
    let mut growth: Vec<(f64, f64)> = vec![];
    let mut last = (Instant::now(), soak.cpu());
    let began = Instant::now();
    for number in 0.. {
        let sample = soak.cycle(number, cycle, killing)?;
        let elapsed = began.elapsed();
        // Threads and descriptors come back to what they were.
        match baseline {
            None if number + 1 >= WARM_UP_CYCLES => baseline = Some(sample.listener),
            _ => {}
        }
        growth.push((elapsed.as_secs_f64() / 3600.0, sample.difference));
        let is_over = elapsed >= length;
        if last.0.elapsed() + cycle / 2 >= interval || is_over {
            let (seconds, now) = (last.0.elapsed().as_secs_f64(), soak.cpu());
            let percent = |now: f64, before: f64| (now - before) * 100.0 / seconds;
            println!(
                "{:>9} {:>11} {:>9} {:>9} {:>7} {:>9} {:>7} {:>9} {:>10.1} {:>7} {:>11} {:>6.1} {:>6.1} {:>6}",
                clock(elapsed),
                sample.messages,
                sample.lost,
                sample.lost_truth,
                sample.unknown,
                sample.windows,
                sample.missing,
                sample.listener.memory,
                sample.difference,
                format!("{}/{}", sample.listener.threads, sample.control.threads),
                format!("{}/{}", sample.listener.descriptors, sample.control.descriptors),
                percent(now.0, last.1 .0),
                percent(now.1, last.1 .1),
                soak.killed
            );
            last = (Instant::now(), now);
        }
        if let Some(baseline) = baseline {
            for (what, now, before) in [
                ("threads", sample.listener.threads, baseline.threads),
                ("descriptors", sample.listener.descriptors, baseline.descriptors),
            ] {
                ensure!(now == before, "The listener has {now} {what}; after the warm-up it had {before}");
            }
        }
        judge::check_growth(&growth, HIGHEST_RISE, "The listener")?;
        if is_over {
            break;
        }
    }
    soak.end(began.elapsed())
}

/// Returns a time as h:mm:ss.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

impl Soak {
    /// Waits until the readers have windows of every subscription, and then until messages are received on every topic.
    /// The history of `/statistics` is filled before, so that it does not grow later, when a reader is slow.
    fn begin(&mut self) -> Result<()> {
        ask(&mut self.control, "report")?;
        ask(&mut self.listener, "report")?;
        for which in 0..2 {
            let reader = if which == 0 { &mut self.reader } else { &mut self.stopped };
            wait_for("windows of every subscription on /statistics", || {
                Ok(read(reader)?.sums.len() == TOPICS + 1)
            })?;
        }
        self.fill_history()?;
        for process in 0..PROCESSES {
            let talker = self.talker(process)?;
            self.talkers.push(talker);
        }
        let listener = &mut self.listener;
        wait_for("messages on every topic", || {
            Ok(ask(listener, "report")?.rows.iter().take(TOPICS).all(|row| row.received > 0))
        })
    }

    /// Stops a reader until the history of `/statistics` is full of messages for it, and ends it.
    fn fill_history(&mut self) -> Result<()> {
        let mut blocked = start(&["reader"], self.domain)?;
        wait_for("windows on /statistics for the reader that fills the history", || {
            Ok(read(&mut blocked)?.messages > 0)
        })?;
        blocked.signal("STOP");
        let full = read(&mut self.reader)?.messages + HISTORY;
        wait_for("messages that fill the history of /statistics", || {
            Ok(read(&mut self.reader)?.messages >= full)
        })?;
        blocked.signal("KILL");
        blocked.end();
        Ok(())
    }

    fn talker(&mut self, process: usize) -> Result<(u64, Program)> {
        let incarnation = self.next_incarnation;
        self.next_incarnation += 1;
        let (process, number) = (process.to_string(), incarnation.to_string());
        let arguments = ["talker", "--process", &process, "--incarnation", &number];
        Ok((incarnation, start(&arguments, self.domain)?))
    }

    /// Creates and drops, stops and continues, kills and starts; then compares.
    fn cycle(&mut self, number: usize, length: Duration, killing: usize) -> Result<Sample> {
        let began = Instant::now();
        let until = |part: f64| std::thread::sleep(length.mul_f64(part).saturating_sub(began.elapsed()));
        for program in [&mut self.listener, &mut self.control] {
            ask(program, "create")?;
        }
        self.stopped.signal("STOP");
        until(0.3);
        for program in [&mut self.listener, &mut self.control] {
            ask(program, "publish")?;
        }
        until(0.4);
        for program in [&mut self.listener, &mut self.control] {
            ask(program, &format!("stall {}", STALL.as_millis()))?;
        }
        until(0.5);
        self.stopped.signal("CONT");
        let dropped = ask(&mut self.listener, "drop")?;
        ask(&mut self.control, "drop")?;
        check(&dropped)?;
        if number % killing == killing - 1 {
            self.replace_a_talker(number / killing)?;
        }
        until(1.0);
        self.sample()
    }

    /// Ends a talker, in turns by SIGKILL and in an orderly way, and starts another.
    fn replace_a_talker(&mut self, number: usize) -> Result<()> {
        let process = number % PROCESSES;
        let new = self.talker(process)?;
        let (incarnation, mut old) = std::mem::replace(&mut self.talkers[process], new);
        if number % 2 == 0 {
            self.cpu_of_ended += cpu(old.id());
            old.signal("KILL");
            self.killed += 1;
        } else {
            let counts = serde_json::from_str(&old.request("end"))?;
            self.cpu_of_ended += cpu(old.id());
            self.published.insert(incarnation, counts);
        }
        old.end();
        Ok(())
    }

    /// Compares the figures of all subscriptions.
    fn sample(&mut self) -> Result<Sample> {
        for (incarnation, talker) in &self.talkers {
            usage(talker.id()).with_context(|| format!("Talker {incarnation} has ended by itself"))?;
        }
        let published = std::mem::take(&mut self.published);
        let incarnations: Vec<String> = published.keys().map(u64::to_string).collect();
        let report = ask(&mut self.listener, format!("report {}", incarnations.join(" ")).trim())?;
        let control = ask(&mut self.control, "report")?;
        check(&report)?;
        for (incarnation, counts) in &published {
            for (index, count) in counts {
                let row = &report.rows[*index];
                let last =
                    row.last.iter().find(|(publisher, _)| publisher == incarnation).map(|(_, last)| *last);
                ensure!(
                    last == Some(*count),
                    "{}: publisher {incarnation} has published {count} messages; the last one received has the \
                     number {last:?}",
                    row.name
                );
            }
        }
        let deaf = &report.rows[TOPICS];
        ensure!(
            deaf.received == 0,
            "{} has received {} messages of incompatible publishers",
            deaf.name,
            deaf.received
        );
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let latest = Duration::from_millis(self.window) + Duration::from_secs(10);
        for row in &report.rows {
            let late = now.saturating_sub(Duration::from_nanos(row.windows.stop as u64));
            ensure!(late < latest, "{}: the last window stopped {late:?} ago", row.name);
        }
        let mut missing: u64 = report.rows.iter().map(|row| row.windows.missing).sum();
        for (which, reader) in [("", &mut self.reader), (" that was stopped", &mut self.stopped)] {
            let read = read(reader)?;
            if let Some(first) = read.first_missing {
                bail!("The reader{which} of /statistics misses {} windows; the first: {first}", read.missing);
            }
            let late = now.as_secs_f64() - read.last_stop;
            ensure!(
                late < latest.as_secs_f64(),
                "The reader{which} of /statistics has no window that stopped in the last {late:.1} s"
            );
            missing += read.missing;
        }
        let is_unknown =
            |row: &&Row| row.received > 0 && row.counted.is_some_and(|counted| counted.lost.is_none());
        let counted =
            |count: fn(&Counted) -> u64| report.rows.iter().flat_map(|row| &row.counted).map(count).sum();
        Ok(Sample {
            messages: counted(|counted| counted.received),
            lost: counted(|counted| counted.lost.unwrap_or(0)),
            lost_truth: report.rows.iter().filter(|row| !is_unknown(row)).map(|row| row.lost).sum(),
            unknown: report.rows.iter().filter(is_unknown).count(),
            windows: report.rows.iter().map(|row| row.windows.windows).sum(),
            missing,
            listener: usage(self.listener.id())?,
            control: usage(self.control.id())?,
            difference: (report.heap as f64 - control.heap as f64) / 1e3,
        })
    }

    /// Ends the talkers, waits for the last messages and windows, and compares everything.
    fn end(mut self, length: Duration) -> Result<()> {
        let mut talkers = std::mem::take(&mut self.talkers);
        talkers.iter_mut().for_each(|(_, talker)| talker.send("end"));
        for (incarnation, talker) in talkers {
            let counts = serde_json::from_str(&talker.read("counts of a talker"))?;
            self.published.insert(incarnation, counts);
            talker.end();
        }
        let (listener, reader) = (&mut self.listener, &mut self.reader);
        wait_for("windows with the last messages", || {
            let report = ask(listener, "report")?;
            let sums = read(reader)?.sums;
            let is_in_windows = |row: &Row| {
                let is_read = sums.get(&row.name) == Some(&row.received) || row.windows.without_ages > 0;
                row.windows.sum == row.received && is_read
            };
            Ok(report.rows.iter().all(is_in_windows))
        })?;
        let sample = self.sample()?;
        let sent = (sample.messages + sample.lost) as f64 / length.as_secs_f64();
        let nominal = TOPICS as f64 * f64::from(RATE);
        ensure!(
            sent > LOWEST_LOAD * nominal,
            "{sent:.0} messages a second were sent; they should be {nominal}"
        );
        println!(
            "passed: {} messages received, {} lost (the senders' numbers: {}), {} windows, {} missing, in {}",
            sample.messages,
            sample.lost,
            sample.lost_truth,
            sample.windows,
            sample.missing,
            clock(length)
        );
        Ok(())
    }

    /// Returns the processor time of the listener and of all processes, in seconds.
    fn cpu(&self) -> (f64, f64) {
        let listener = cpu(self.listener.id());
        let others = [&self.control, &self.reader, &self.stopped].into_iter();
        let others = others.chain(self.talkers.iter().map(|(_, talker)| talker));
        let others: f64 = others.map(|program| cpu(program.id())).sum();
        (listener, listener + others + self.cpu_of_ended + cpu(std::process::id()))
    }
}

/// Errors if a subscription's figures differ.
fn check(report: &Report) -> Result<()> {
    let differences: Vec<String> = report.rows.iter().flat_map(judge::differences).collect();
    if differences.is_empty() {
        return Ok(());
    }
    bail!("{} figures differ:\n{}", differences.len(), differences.join("\n"))
}

pub fn wait_for(what: &str, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    let started = Instant::now();
    while !condition()? {
        ensure!(started.elapsed() < PATIENCE, "No {what} within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
