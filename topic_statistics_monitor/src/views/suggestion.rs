// SPDX-License-Identifier: Apache-2.0

//! A file for `--expect`, from what is seen.

use std::{fs::File, io::Write, time::Instant};

use topic_statistics_observe::expect::suggest;

use super::{lines::unmeasured, Polled, View, TICK};
use crate::error::{print_all, Failure, UNFULFILLED};

/// Prints the figures seen in the whole run as a file for `--expect`. Prints nothing if it saw no message.
pub struct Suggestion {
    pub output: File,
    /// In percent.
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
