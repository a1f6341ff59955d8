// SPDX-License-Identifier: Apache-2.0

//! Errors that end the program, how they are reported, and exit statuses.

use std::{
    error::Error,
    io::{self, Write},
};

/// An error that ends the program.
pub type Failure = Box<dyn Error>;

/// The exit status if conditions are not fulfilled, something became worse, or nothing was measured.
pub const UNFULFILLED: u8 = 1;
/// The exit status if nothing lies between `--from` and `--to`.
pub const WRONG_USAGE: u8 = 2;
/// The exit status if the bag cannot be read, or not all of it.
pub const FAILED: u8 = 3;

/// Writes to standard error, which may be closed. Names from the bag are escaped by the caller.
pub fn print_error(text: &str) {
    let _closed = writeln!(io::stderr(), "bag_statistics: {text}");
}

/// Returns whether an error means that the reader of the output is gone.
pub fn has_no_reader(error: &(dyn Error + 'static)) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
