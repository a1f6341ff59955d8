// SPDX-License-Identifier: Apache-2.0

//! Errors that end the program.

use std::{error::Error, io};

use topic_statistics_observe::error;
pub use topic_statistics_observe::error::{Failure, FAILED, UNFULFILLED};

/// Writes a text to standard error. The caller escapes names from the network.
pub fn print_error(text: &str) {
    error::print_error("topic_monitor", text);
}

pub fn print_all(texts: &[String]) {
    texts.iter().for_each(|text| print_error(text));
}

/// Returns whether an error means that the process that reads the output has ended, or that the terminal is closed.
pub fn has_no_reader(error: &(dyn Error + 'static), is_terminal: bool) -> bool {
    const CLOSED: Option<i32> = Some(rustix::io::Errno::IO.raw_os_error());
    let is_closed = |error: &io::Error| error.raw_os_error() == CLOSED;
    error::has_no_reader(error) || is_terminal && error.downcast_ref().is_some_and(is_closed)
}
