// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask soak --scenario preload`: nodes in Python with the preloaded statistics, measured from outside.
//!
//! Two talkers, a node with statistics (the host) and the same node without statistics (the control) publish,
//! subscribe, serve and call (`host.py`). In each cycle, host and control create and destroy a node with endpoints, and
//! fork. In every third cycle, a talker is replaced. At the end of a cycle, all processes pause. Then the sums over all
//! windows must equal the processes' own counts, and the host must have received all messages of the talkers.

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
    measured::{clock, usage, Cycle, Options},
    run::{ask, program, wait_for},
};

/// The topics of the talkers. The host and the control subscribe to both topics.
const TOPICS: [&str; 2] = ["/soak_0", "/soak_1"];
/// A talker is replaced in every third cycle. Talkers are ended alternately by SIGKILL and by closing their input.
const REPLACING: usize = 3;

#[derive(Default, Deserialize)]
struct Report {
    count: BTreeMap<String, u64>,
    /// For each sender, the number of messages that the process has received.
    received: BTreeMap<String, u64>,
    /// Only in the reader's report: for each source and metric, the number of samples in all windows together, or the
    /// sum of the counts of a metric such as `requests`.
    sums: BTreeMap<String, u64>,
    /// The heap in use, in bytes.
    heap: u64,
    /// The number of allocations that the preloaded statistics have made on the executor's thread.
    allocations: u64,
    /// The number of subscriptions to the topic on which the process publishes.
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
    /// Returns the expected sums over all windows of the talker, by source and metric.
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
    /// The file to which all processes with statistics write their standard error.
    errors: PathBuf,
    _directory: TempDir,
    reader: Program,
    host: Program,
    control: Program,
    talkers: Vec<Talker>,
    next_incarnation: u64,
    /// The expected sums over all windows of the processes that have ended, by source and metric.
    ended: BTreeMap<String, u64>,
    /// For each talker that has ended, the number of messages that it has sent.
    sent: BTreeMap<String, u64>,
    killed: u64,
}

pub fn run(options: &Options) -> Result<()> {
    let length = Duration::from_secs_f64(options.cycle);
    let mut soak = Soak::begin()?;
    let took = options.run(2, 200.0, |number| soak.cycle(number, length))?;
    println!("passed in {}", clock(took));
    soak.end()
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
        let is_of_host = |(source, _): &(&String, &u64)| source.starts_with("/host:/soak_");
        wait_for("windows of the host", || {
            Ok(report(&mut soak.reader)?.sums.iter().filter(is_of_host).count() == TOPICS.len())
        })?;
        Ok(soak)
    }

    /// Starts a talker. Waits until the reader has windows of it, and until its topic has both subscriptions.
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

    fn all(&mut self, request: &str) {
        let talkers = self.talkers.iter_mut().map(|talker| &mut talker.program);
        for program in [&mut self.host, &mut self.control].into_iter().chain(talkers) {
            program.request(request);
        }
    }

    fn cycle(&mut self, number: usize, length: Duration) -> Result<Cycle> {
        let began = Instant::now();
        let until = |part: f64| std::thread::sleep(length.mul_f64(part).saturating_sub(began.elapsed()));
        self.all("run");
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
        let allocations = report(&mut self.host)?.allocations - before;
        ensure!(before > 0, "The allocations of the statistics are not counted");
        ensure!(allocations == 0, "The statistics made {allocations} allocations for messages");
        self.all("pause");
        let mut difference = String::new();
        wait_for("equal counts", || {
            difference = self.difference()?;
            Ok(difference.is_empty())
        })
        .with_context(|| difference)?;
        check(&self.errors)?;
        let [host, control] = [report(&mut self.host)?, report(&mut self.control)?];
        let threads = [usage(self.host.id())?.threads, usage(self.control.id())?.threads];
        ensure!(
            threads[0] == threads[1] + 1,
            "The host has {} threads, the control {}",
            threads[0],
            threads[1]
        );
        if number % REPLACING == REPLACING - 1 {
            self.replace_a_talker(number / REPLACING)?;
        }
        until(1.0);
        let messages = host.received.values().sum::<u64>() + host.count("published");
        let cells = vec![
            ("messages", messages.to_string()),
            ("calls", host.count("requests").to_string()),
            ("allocations", allocations.to_string()),
            ("killed", self.killed.to_string()),
        ];
        Ok((cells, [self.host.id(), self.control.id()], (host.heap as f64 - control.heap as f64) / 1e3))
    }

    /// Returns the sums that differ from the processes' own counts, as text. The text is empty if all sums are right,
    /// which is possible only when no message is under way. (Calls and responses are compared separately, because the
    /// middleware may lose a response.)
    fn difference(&mut self) -> Result<String> {
        let (host, control) = (report(&mut self.host)?, report(&mut self.control)?);
        let (mut expected, mut sent) = (self.ended.clone(), self.sent.clone());
        expected.insert("/host:/host_out publish_duration_ms".to_owned(), host.count("published"));
        expected.insert("/host:/host requests".to_owned(), host.count("requests"));
        for talker in &mut self.talkers {
            let own = report(&mut talker.program)?;
            expected.extend(talker.sums(&own));
            sent.insert(talker.name.clone(), own.count("published"));
        }
        let read = report(&mut self.reader)?.sums;
        let ages = TOPICS.map(|topic| read.get(&format!("/host:{topic} message_age")).copied().unwrap_or(0));
        let received: u64 = host.received.values().sum();
        expected.retain(|source, sum| read.get(source) != Some(sum));
        sent.retain(|talker, sent| {
            [&host, &control].iter().any(|process| process.received.get(talker).unwrap_or(&0) != sent)
        });
        Ok(match expected.is_empty() && sent.is_empty() && ages.iter().sum::<u64>() == received {
            true => String::new(),
            false => format!("{expected:?} of {read:?}; {sent:?} of {:?}; {ages:?}", host.received),
        })
    }

    /// Replaces a talker; the old talker is ended by SIGKILL or by closing its input. All processes must pause.
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

/// Errors if the library has written to standard error. Lines of rclpy are ignored.
fn check(errors: &Path) -> Result<()> {
    let errors = std::fs::read_to_string(errors)?;
    ensure!(!errors.contains("topic_statistics"), "There are lines on standard error: {errors}");
    Ok(())
}

fn report(program: &mut Program) -> Result<Report> {
    ask(program, "report")
}
