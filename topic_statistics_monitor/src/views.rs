// SPDX-License-Identifier: Apache-2.0

//! Where the rows go: lines or JSON, the live view on a terminal, or a file of expectations.

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
/// How long the discovery of the graph takes at most.
pub const DISCOVERY: Duration = Duration::from_secs(2);

/// Where the rows go.
pub trait View {
    /// Shows the rows, and waits until they are to be polled again. Returns the exit status if the run is over.
    fn show(&mut self, polled: &mut Polled<'_>) -> Result<Option<u8>, Failure>;
}

/// The rows after a poll.
pub struct Polled<'a> {
    /// All rows.
    pub rows: Vec<&'a Row>,
    /// The names of the rows with a new whole window.
    pub new: &'a [String],
    /// The rows whose health has another level, with the change.
    pub changes: &'a [(String, Change)],
    /// What is left out or dropped because a bound is reached.
    pub notice: Option<String>,
    /// The time since the start.
    pub elapsed: Duration,
    /// Whether it is time to end.
    pub is_over: bool,
    /// The content of the page. `None` without a page.
    pub recording: Option<&'a mut Recording>,
}

impl<'a> Polled<'a> {
    /// Returns the rows with a new whole window.
    pub fn new_rows(&self) -> Vec<&'a Row> {
        self.rows.iter().filter(|row| self.new.contains(&row.name)).copied().collect()
    }

    /// Records the last window of a row for the page.
    pub fn record(&mut self, row: &Row) {
        if let Some(recording) = &mut self.recording {
            recording.add(row);
        }
    }
}
