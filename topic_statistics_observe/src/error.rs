// SPDX-License-Identifier: Apache-2.0

//! Errors that end a program, and exit statuses.

use std::{
    error::Error,
    io::{self, Write},
};

/// An error that ends the program.
pub type Failure = Box<dyn Error>;

/// The exit status if a condition is not fulfilled, a value became worse, or nothing was measured.
pub const UNFULFILLED: u8 = 1;
/// The exit status if the arguments contradict each other.
pub const WRONG_USAGE: u8 = 2;
/// The exit status if the program cannot start, cannot continue, or cannot read all of its input.
pub const FAILED: u8 = 3;

/// Writes a line that starts with the program's name to standard error. If standard error is closed, the line is not
/// written. The caller must have escaped names from the network.
pub fn print_error(program: &str, text: &str) {
    let _closed = writeln!(io::stderr(), "{program}: {text}");
}

/// Returns whether the process that reads the output has ended, as in `topic_monitor | head`.
pub fn has_no_reader(error: &(dyn Error + 'static)) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
