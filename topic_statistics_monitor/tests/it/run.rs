// SPDX-License-Identifier: Apache-2.0

//! Helpers that run the monitor as a process that writes lines or JSON.

use std::{
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc::Receiver,
    time::{Duration, Instant},
};

use serde_json::Value;
use test_support::{program, wait_for, Process, LIMIT};

pub fn command(arguments: &[&str], domain: u32) -> Command {
    test_support::command(env!("CARGO_BIN_EXE_topic_monitor"), arguments, domain)
}

/// Starts a command whose standard output and standard error are pipes.
pub fn piped(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn objects(bytes: &[u8]) -> Vec<Value> {
    text(bytes).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Starts a talker that publishes `/imu` and `/chatter` at 50 Hz.
pub fn talker(domain: u32) -> Process {
    Process::start(program("talker"), &["--ros-args", "-p", "rate:=50.0"], domain)
}

/// A process of the monitor with `--json`.
pub struct Json {
    pub process: Process,
    pub lines: Receiver<String>,
    pub errors: Receiver<String>,
}

impl Json {
    /// Starts the monitor, with windows of 0.25 s unless the arguments contain `--period`.
    pub fn start(arguments: &[&str], domain: u32) -> Json {
        Self::spawn(Self::command(arguments, domain))
    }

    pub fn command(arguments: &[&str], domain: u32) -> Command {
        let period: &[&str] = if arguments.contains(&"--period") { &[] } else { &["--period", "0.25"] };
        command(&[&["--json"], period, arguments].concat(), domain)
    }

    pub fn spawn(command: Command) -> Json {
        let mut child = piped(command);
        let lines = test_support::lines(child.stdout.take().unwrap());
        let errors = test_support::lines(child.stderr.take().unwrap());
        Json { process: child.into(), lines, errors }
    }

    /// Reads standard error up to a line that contains a text. Returns the line.
    pub fn until_error(&self, text: &str) -> String {
        until(&self.errors, text, |line| line.contains(text).then_some(line))
    }

    /// Reads standard output up to an object for which `is` returns `true`. Returns the object.
    pub fn until(&self, what: &str, mut is: impl FnMut(&Value) -> bool) -> Value {
        until(&self.lines, what, |line| Some(serde_json::from_str(&line).unwrap()).filter(&mut is))
    }

    /// Reads standard output up to an object of a topic for which `is` returns `true`. Returns the object.
    pub fn until_of(&self, topic: &str, mut is: impl FnMut(&Value) -> bool) -> Value {
        self.until(topic, |object| object["topic"] == topic && is(object))
    }

    /// Sends a signal to the monitor, and waits until the monitor ends. Returns the exit status.
    pub fn end(&mut self, signal: &str) -> Option<i32> {
        self.process.signal(signal);
        self.process.wait().code()
    }
}

fn until<T>(lines: &Receiver<String>, what: &str, mut find: impl FnMut(String) -> Option<T>) -> T {
    let (deadline, mut last) = (Instant::now() + LIMIT, String::new());
    loop {
        let line = lines.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        let line = line.unwrap_or_else(|error| panic!("no {what}: {error}; {last}"));
        if let Some(found) = find(line.clone()) {
            return found;
        }
        last = line;
    }
}

/// Waits until a pipe is full: the number of bytes in the pipe has not changed for a second.
pub fn wait_until_full(pipe: &ChildStdout) {
    let (mut waiting, mut since) = (0, Instant::now());
    wait_for("full pipe", || {
        let waits = rustix::io::ioctl_fionread(pipe).unwrap();
        if waits != waiting {
            (waiting, since) = (waits, Instant::now());
        }
        waiting > 30_000 && since.elapsed() > Duration::from_secs(1)
    });
}
