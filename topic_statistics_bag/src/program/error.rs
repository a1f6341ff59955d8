// SPDX-License-Identifier: Apache-2.0

//! Errors that end the program.

pub use topic_statistics_observe::error::{has_no_reader, Failure, FAILED, UNFULFILLED, WRONG_USAGE};

/// Writes an error to standard error. The caller has to escape names from the bag.
pub fn print_error(text: &str) {
    topic_statistics_observe::error::print_error("bag_statistics", text);
}
