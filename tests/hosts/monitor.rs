// SPDX-License-Identifier: Apache-2.0

//! The program topic_monitor on a host.

use std::time::Instant;

use serde_json::Value;

use test_support::{network::Host, program, Program, LIMIT};

use super::{command, now};

pub struct Monitor {
    program: Program,
    last: Value,
}

impl Monitor {
    pub fn start(host: &Host, arguments: &[&str], domain: u32) -> Monitor {
        let program = program("topic_monitor");
        let arguments = [&["--json", "--period", "0.25"], arguments].concat();
        let mut command = command(program, &arguments, domain);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        Monitor { program: host.spawn(command).into(), last: Value::Null }
    }

    /// Returns the last object that topic_monitor has printed.
    pub fn last(&mut self) -> &Value {
        while let Some(line) = self.program.try_read() {
            self.last = serde_json::from_str(&line).unwrap();
        }
        &self.last
    }

    /// Returns the messages received and lost since the start.
    pub fn total(&mut self) -> (u64, u64) {
        let total = &self.last()["total"];
        let count = |what: &str| total[what].as_u64().unwrap_or_default();
        (count("received"), count("lost"))
    }

    /// Returns the number of publishers whose messages were received.
    pub fn senders(&mut self) -> usize {
        self.last()["senders"].as_array().map_or(0, Vec::len)
    }

    /// Waits until no message is on the network: two windows that began after this call have the same totals. Returns
    /// the messages received and lost.
    pub fn settled(&mut self) -> (u64, u64) {
        let (after, mut before) = (now(), Value::Null);
        self.wait("two windows with the same totals", |object| {
            let is_later = object["window_start"].as_i64() > Some(after);
            is_later && std::mem::replace(&mut before, object["total"].clone()) == object["total"]
        });
        self.total()
    }

    /// Ends topic_monitor by SIGINT.
    pub fn end(self) {
        self.program.signal("INT");
        self.program.end();
    }

    /// Reads the JSON objects that topic_monitor prints, until an object meets the condition `is`.
    pub fn wait(&mut self, what: &str, mut is: impl FnMut(&Value) -> bool) {
        let deadline = Instant::now() + LIMIT;
        loop {
            assert!(Instant::now() < deadline, "no {what}: {:#}", self.last);
            self.last = serde_json::from_str(&self.program.read(what)).unwrap();
            if is(&self.last) {
                return;
            }
        }
    }
}
