// SPDX-License-Identifier: Apache-2.0

//! The views of the rows: lines or JSON, the live view on a terminal, or a file of expectations.

pub mod detail;
mod lines;
mod live;
mod screen;
mod sparkline;
mod suggestion;
mod terminal;

use std::time::Duration;

use topic_statistics_core::health::Change;
use topic_statistics_observe::{recording::Recording, row::Row};

use crate::error::Failure;
pub use lines::Lines;
pub use live::Live;
pub use screen::Screen;
pub use suggestion::Suggestion;
pub use terminal::{Input, LiveTerminal};

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
