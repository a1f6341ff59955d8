// SPDX-License-Identifier: Apache-2.0

//! Errors that end the program, and how they are reported.

use std::{
    error::Error,
    io::{self, Write},
};

/// An error that ends the program.
pub type Failure = Box<dyn Error>;

/// Writes to standard error, which may be closed. Names from the network are escaped by the caller.
pub fn print_error(text: &str) {
    let _closed = writeln!(io::stderr(), "topic_monitor: {text}");
}

/// Returns whether an error means that the reader of the output is gone, as behind `| head` or when a terminal is
/// closed.
pub fn has_no_reader(error: &(dyn Error + 'static), is_terminal: bool) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe || is_terminal && is_closed(error))
}

/// Returns whether an error of a terminal means that it is closed.
fn is_closed(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}
