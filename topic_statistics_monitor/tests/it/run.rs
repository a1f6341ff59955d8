// SPDX-License-Identifier: Apache-2.0

//! The monitor as a process that writes lines.

use std::{
    process::{Child, Command, Output, Stdio},
    time::Instant,
};

use serde_json::Value;

/// The arguments of `sh` that start the monitor with SIGHUP ignored, as under nohup.
pub const WITHOUT_HANG_UP: [&str; 3] =
    ["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_topic_monitor")];

/// The arguments of a talker that publishes at 50 Hz.
pub const FAST: [&str; 3] = ["--ros-args", "-p", "rate:=50.0"];

pub fn command(arguments: &[&str], domain: u32) -> Command {
    test_support::command(env!("CARGO_BIN_EXE_topic_monitor"), arguments, domain)
}

/// Runs the monitor to its end, and returns its output.
pub fn run(arguments: &[&str], domain: u32) -> Output {
    command(arguments, domain).output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn objects(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The monitor with `--json`. It is killed when this is dropped.
pub struct Json {
    pub child: Child,
    pub lines: std::sync::mpsc::Receiver<String>,
    pub errors: std::sync::mpsc::Receiver<String>,
}

impl Json {
    pub fn start(arguments: &[&str], domain: u32) -> Json {
        Self::with_period("0.25", arguments, domain)
    }

    /// Starts it with windows of this number of seconds.
    pub fn with_period(period: &str, arguments: &[&str], domain: u32) -> Json {
        let arguments = [&["--period", period], arguments].concat();
        Self::start_as(&arguments, domain, |_| ())
    }

    /// Starts it with a changed command.
    pub fn start_as(arguments: &[&str], domain: u32, change: impl FnOnce(&mut Command)) -> Json {
        let mut command = command(&[&["--json"], arguments].concat(), domain);
        change(&mut command);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = test_support::lines(child.stdout.take().unwrap());
        let errors = test_support::lines(child.stderr.take().unwrap());
        Json { child, lines, errors }
    }

    /// Reads standard error up to a line that contains a text.
    pub fn until_error(&self, text: &str) -> String {
        let deadline = Instant::now() + test_support::LIMIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.errors.recv_timeout(left).unwrap_or_else(|error| panic!("no {text}: {error}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Sends it a signal, for example `STOP`.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Waits until it has ended. Returns its exit status. Panics with the signal that has killed it.
    pub fn end(&mut self) -> Option<i32> {
        let mut status = None;
        test_support::wait_for("end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let status = status.unwrap();
        status.code().or_else(|| panic!("{status}: {:#?}", self.errors.try_iter().collect::<Vec<_>>()))
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().count()
    }

    /// Reads standard output up to an object.
    pub fn until(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + test_support::LIMIT;
        let mut last = String::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line =
                self.lines.recv_timeout(left).unwrap_or_else(|error| panic!("no {what}: {error}; {last}"));
            let object = serde_json::from_str(&line).unwrap();
            if is(&object) {
                return object;
            }
            last = line;
        }
    }
}

impl Drop for Json {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
