// SPDX-License-Identifier: Apache-2.0

//! The views of the rows: lines or JSON, the live view on a terminal, or a file of expectations.

pub mod detail;
mod lines;
mod live;
mod screen;
mod sparkline;

use std::{
    fs::File,
    io::Write,
    time::{Duration, Instant},
};

use topic_statistics_core::health::Change;
use topic_statistics_observe::{expect::suggest, recording::Recording, row::Row};

use crate::process::{print_all, Failure, UNFULFILLED};
use lines::unmeasured;
pub use lines::Lines;
pub use live::{Input, Live, LiveTerminal};
pub use screen::Screen;

/// How often the rows are polled.
pub const TICK: Duration = Duration::from_millis(50);
/// The assumed maximum time until the node has discovered the ROS graph.
pub const DISCOVERY: Duration = Duration::from_secs(2);

pub trait View {
    /// Shows the rows, and waits until it is time to poll the rows again. Returns the exit status if the run is over.
    fn show(&mut self, polled: &mut Polled<'_>) -> Result<Option<u8>, Failure>;
}

/// The rows after a poll, and other data that a view shows.
pub struct Polled<'a> {
    pub rows: Vec<&'a Row>,
    pub new: &'a [String],
    /// The names of the rows whose level of health changed, with the change.
    pub changes: &'a [(String, Change)],
    pub notice: Option<String>,
    pub recorder: Option<String>,
    pub elapsed: Duration,
    pub is_over: bool,
    pub recording: Option<&'a mut Recording>,
}

impl<'a> Polled<'a> {
    pub fn new_rows(&self) -> Vec<&'a Row> {
        self.rows.iter().filter(|row| self.new.contains(&row.name)).copied().collect()
    }

    pub fn record(&mut self, row: &Row) {
        if let Some(recording) = &mut self.recording {
            recording.add(row);
        }
    }
}

/// Prints a file for `--expect` with the values of the run as limits. Prints nothing if no message was received.
pub struct Suggestion {
    pub output: File,
    pub tolerance: u32,
}

impl View for Suggestion {
    fn show(&mut self, polled: &mut Polled<'_>) -> Result<Option<u8>, Failure> {
        if !polled.is_over {
            std::thread::sleep(TICK);
            return Ok(None);
        }
        let file = suggest("topic_monitor", &polled.rows, self.tolerance, polled.elapsed, Instant::now());
        let Some(file) = file else {
            print_all(&unmeasured(polled.rows.iter().copied()));
            return Ok(Some(UNFULFILLED));
        };
        self.output.write_all(file.as_bytes())?;
        Ok(Some(0))
    }
}
