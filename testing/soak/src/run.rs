// SPDX-License-Identifier: Apache-2.0

//! The parent process: starts and ends the other processes, makes them create and drop entities, checks reports.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{bail, ensure, Context, Result};
use serde::de::DeserializeOwned;
use test_support::{command, domain, Program, LIMIT};

use crate::{
    listener::{Report, Row},
    measured::{clock, usage, Options},
    reader::Read,
    talker::{PROCESSES, RATE, TOPICS},
};

/// Fast DDS sends a heartbeat every 3 s. If a reader were stopped at each heartbeat, it could never request missed
/// messages.
const SHORTEST_CYCLE: Duration = Duration::from_secs(4);
/// The depth of the history of `/statistics`. Fast DDS never frees the memory of messages that waited in this history.
const HISTORY: u64 = 2000;
/// The largest rise that is allowed in a third of the run, in kB: the rise of the listener's heap minus the rise of the
/// control's heap. The tables of publishers grow by 282 kB when each topic gets its 65th publisher. A leak of 256 bytes
/// per window would be 13 kB per second, so it would exceed this limit.
const HIGHEST_RISE: f64 = 700.0;

struct Soak {
    domain: u32,
    window: u64,
    listener: Program,
    control: Program,
    /// The first reader is never stopped. The second reader is stopped for some time in each cycle.
    readers: [Program; 2],
    /// The talkers. The first value is the incarnation: it is higher for each talker that is started. The index of a
    /// talker is the number of its process.
    talkers: Vec<(u64, Program)>,
    next_incarnation: u64,
    /// For each incarnation of an ended talker, the topics and the numbers of messages that it published.
    published: BTreeMap<u64, Vec<(usize, u64)>>,
    killed: u64,
}

/// Returns the path of a program that was built into the same directory as this program.
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

pub fn ask<T: DeserializeOwned>(program: &mut Program, request: &str) -> Result<T> {
    let answer = program.request(request);
    serde_json::from_str(&answer).with_context(|| format!("{answer:?} is no answer to {request:?}"))
}

fn read(reader: &mut Program) -> Result<Read> {
    ask(reader, "report")
}

pub fn wait_for(what: &str, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    let started = Instant::now();
    while !condition()? {
        ensure!(started.elapsed() < LIMIT, "No {what} within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

pub fn run(options: &Options) -> Result<()> {
    let cycle = Duration::from_secs_f64(options.cycle).max(SHORTEST_CYCLE);
    let (domain, window) = (domain(), options.window.to_string());
    println!("{TOPICS} topics of {PROCESSES} processes, {} messages/s", TOPICS as u32 * RATE);
    let mut soak = Soak {
        domain,
        window: options.window,
        readers: [start(&["reader"], domain)?, start(&["reader"], domain)?],
        listener: start(&["listener", "0", &window], domain)?,
        control: start(&["listener", "1", &window], domain)?,
        talkers: vec![],
        next_incarnation: 1,
        published: BTreeMap::new(),
        killed: 0,
    };
    soak.begin()?;
    // The library counts losses for up to 256 publishers of a topic, so talkers must not be replaced too often.
    let cycles = options.length().as_secs_f64() / cycle.as_secs_f64();
    let killing = (cycles / (PROCESSES * 100) as f64).ceil().max(3.0) as usize;
    let length = options.run(4, HIGHEST_RISE, |number| {
        soak.cycle(number, cycle, killing)?;
        let (report, heap) = soak.compare()?;
        let sum = |of: fn(&Row) -> u64| report.rows.iter().map(of).sum::<u64>().to_string();
        let cells = vec![
            ("messages", sum(|row| row.truth[0])),
            ("lost", sum(|row| row.counted[1].unwrap_or(0))),
            ("truth", sum(|row| row.truth[1] * u64::from(row.counted[1].is_some()))),
            ("windows", sum(|row| row.windows.windows)),
            ("killed", soak.killed.to_string()),
        ];
        Ok((cells, [soak.listener.id(), soak.control.id()], (report.heap as f64 - heap as f64) / 1e3))
    })?;
    soak.end(length)
}

impl Soak {
    /// Fills the history of `/statistics`, so that the history does not grow later when a reader is slow. Waits until
    /// both readers have windows of every subscription, and until messages are received on every topic.
    fn begin(&mut self) -> Result<()> {
        for program in [&mut self.listener, &mut self.control] {
            ask::<Report>(program, "report")?;
        }
        for reader in &mut self.readers {
            wait_for("windows of every subscription", || Ok(read(reader)?.sums.len() == TOPICS))?;
        }
        let mut blocked = start(&["reader"], self.domain)?;
        wait_for("windows for the reader that fills the history", || Ok(read(&mut blocked)?.messages > 0))?;
        blocked.signal("STOP");
        let full = read(&mut self.readers[0])?.messages + HISTORY;
        wait_for("messages that fill the history", || Ok(read(&mut self.readers[0])?.messages >= full))?;
        blocked.signal("KILL");
        blocked.end();
        for process in 0..PROCESSES {
            let talker = self.talker(process)?;
            self.talkers.push(talker);
        }
        wait_for("messages on every topic", || {
            let report: Report = ask(&mut self.listener, "report")?;
            Ok(report.rows.iter().all(|row| row.truth[0] > 0))
        })
    }

    fn talker(&mut self, process: usize) -> Result<(u64, Program)> {
        let incarnation = self.next_incarnation;
        self.next_incarnation += 1;
        let (process, number) = (process.to_string(), incarnation.to_string());
        let arguments = ["talker", &process, &number];
        Ok((incarnation, start(&arguments, self.domain)?))
    }

    fn cycle(&mut self, number: usize, length: Duration, killing: usize) -> Result<()> {
        let began = Instant::now();
        let until = |part: f64| std::thread::sleep(length.mul_f64(part).saturating_sub(began.elapsed()));
        let mut both = |request: &str| -> Result<Report> {
            let ours = ask(&mut self.listener, request)?;
            ask::<Report>(&mut self.control, request)?;
            Ok(ours)
        };
        both("create")?;
        self.readers[1].signal("STOP");
        until(0.4);
        both("stall")?;
        until(0.5);
        self.readers[1].signal("CONT");
        check(&both("drop")?)?;
        if number % killing == killing - 1 {
            self.replace_a_talker(number / killing)?;
        }
        until(1.0);
        Ok(())
    }

    /// Starts a talker in place of another talker, and ends the other talker, alternately by SIGKILL and on request.
    fn replace_a_talker(&mut self, number: usize) -> Result<()> {
        let process = number % PROCESSES;
        let new = self.talker(process)?;
        let (incarnation, mut old) = std::mem::replace(&mut self.talkers[process], new);
        if number % 2 == 0 {
            old.signal("KILL");
            self.killed += 1;
        } else {
            self.published.insert(incarnation, ask(&mut old, "end")?);
        }
        old.end();
        Ok(())
    }

    /// Compares the figures of all subscriptions. Returns the figures, and the heap of the control.
    fn compare(&mut self) -> Result<(Report, u64)> {
        for (incarnation, talker) in &self.talkers {
            usage(talker.id()).with_context(|| format!("Talker {incarnation} has ended unexpectedly"))?;
        }
        let published = std::mem::take(&mut self.published);
        let report: Report = ask(&mut self.listener, "report")?;
        let control: Report = ask(&mut self.control, "report")?;
        check(&report)?;
        for (incarnation, (index, count)) in published
            .iter()
            .flat_map(|(incarnation, counts)| counts.iter().map(move |count| (incarnation, count)))
        {
            let Row { name, last, .. } = &report.rows[*index];
            // A talker that ended before its first message is not in the report.
            let last = last.get(incarnation).unwrap_or(&0);
            ensure!(last == count, "{name}: {incarnation} has sent {count}; the last received is {last}");
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let latest = Duration::from_millis(self.window) + Duration::from_secs(10);
        for row in &report.rows {
            let late = now.saturating_sub(Duration::from_nanos(row.windows.stop as u64));
            ensure!(late < latest, "{}: the last window stopped {late:?} ago", row.name);
        }
        for reader in &mut self.readers {
            let Read { missing, last_stop, .. } = read(reader)?;
            ensure!(missing.is_empty(), "A reader of /statistics misses windows: {missing:?}");
            let late = now.as_secs_f64() - last_stop;
            ensure!(late < latest.as_secs_f64(), "A reader of /statistics has no window since {late:.1} s");
        }
        Ok((report, control.heap))
    }

    /// Ends the talkers, waits for the last messages and windows, and compares all figures again.
    fn end(mut self, length: Duration) -> Result<()> {
        let mut talkers = std::mem::take(&mut self.talkers);
        talkers.iter_mut().for_each(|(_, talker)| talker.send("end"));
        for (incarnation, talker) in talkers {
            let counts = serde_json::from_str(&talker.read("counts of a talker"))?;
            self.published.insert(incarnation, counts);
            talker.end();
        }
        let (listener, reader) = (&mut self.listener, &mut self.readers[0]);
        wait_for("windows with the last messages", || {
            let report: Report = ask(listener, "report")?;
            let sums = read(reader)?.sums;
            Ok(report.rows.iter().all(|Row { name, truth: [received, ..], windows, .. }| {
                let is_read = sums.get(name) == Some(received) || windows.without_ages > 0;
                windows.received == *received && is_read
            }))
        })?;
        let (report, _) = self.compare()?;
        let sent: u64 = report.rows.iter().map(|row| row.truth[0] + row.truth[1]).sum();
        let (sent, nominal) = (sent as f64 / length.as_secs_f64(), TOPICS as f64 * f64::from(RATE));
        ensure!(sent > 0.8 * nominal, "{sent:.0} messages a second were sent, not {nominal}");
        println!("passed: {} in {}", report.rows.iter().map(|row| row.truth[0]).sum::<u64>(), clock(length));
        Ok(())
    }
}

/// Errors if a subscription's figures differ from the numbers in the messages. The library does not know losses and
/// similar figures before the first message, and after messages that it counted but did not measure.
fn check(report: &Report) -> Result<()> {
    let differs = |row: &&Row| {
        let [received, lost, ..] = row.counted;
        let may_be_unknown = row.windows.unrecorded > 0 || row.truth[0] == 0;
        let is_equal = match lost {
            None => received == Some(row.truth[0]) && may_be_unknown,
            Some(_) => row.counted == row.truth.map(Some),
        };
        !is_equal || row.windows.wrong > 0
    };
    let differences: Vec<&Row> = report.rows.iter().filter(differs).collect();
    if !differences.is_empty() {
        bail!("{} subscriptions differ from the senders' numbers: {differences:#?}", differences.len())
    }
    Ok(())
}
