// SPDX-License-Identifier: Apache-2.0

//! The view of `--print-expectations`: a file for `--expect`, derived from the messages of the run.

use std::{fs::File, io::Write, time::Instant};

use topic_statistics_observe::expect::suggest;

use super::{lines::unmeasured, Polled, View, TICK};
use crate::error::{print_all, Failure, UNFULFILLED};

/// Prints a file for `--expect` at the end of the run, with the values of the run as limits. Prints no file if no
/// message was received.
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
