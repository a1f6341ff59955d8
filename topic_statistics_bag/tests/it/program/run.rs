// SPDX-License-Identifier: Apache-2.0

//! The program as a process.

use std::{
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

/// The end of a run.
#[derive(Debug)]
pub struct Ended {
    pub status: Option<i32>,
    pub output: String,
    pub errors: String,
}

/// Runs the program on a bag.
pub fn run(bag: &Path, arguments: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bag_statistics"));
    let Output { status, stdout, stderr } = command.arg(bag).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { status: status.code(), output: text(&stdout), errors: text(&stderr) }
}

impl Ended {
    /// Returns the objects of `--json`.
    pub fn objects(&self) -> Vec<Value> {
        self.output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the windows of a topic.
    pub fn windows(&self, topic: &str) -> Vec<Value> {
        let is_window = |object: &Value| object["topic"] == topic && object.get("window_start").is_some();
        self.objects().into_iter().filter(is_window).collect()
    }

    /// Returns the figures of a topic over the bag.
    pub fn recording(&self, topic: &str) -> Value {
        let mut objects = self.objects().into_iter();
        let found = objects.find(|object| object["topic"] == topic && object.get("recording").is_some());
        found.unwrap_or_else(|| panic!("{topic} in {}", self.output))["recording"].clone()
    }

    /// Returns the line of the table of a topic, by words.
    pub fn table_line(&self, topic: &str) -> Vec<&str> {
        let mut lines = self.output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        lines
            .find(|line| line.first() == Some(&topic))
            .unwrap_or_else(|| panic!("{topic} in {}", self.output))
    }
}
