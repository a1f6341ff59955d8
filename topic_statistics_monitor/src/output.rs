// SPDX-License-Identifier: Apache-2.0

//! Standard output, reserved for this program.

use std::{fs::File, io};

/// Returns standard output for this program alone. From now on, descriptor 1 is standard error.
///
/// Middlewares and their libraries log to descriptor 1: Zenoh does if there is no router. Between the objects of
/// `--json` or in a file of `--print-expectations`, their lines would make the output unreadable.
pub fn take_stdout() -> io::Result<File> {
    let own = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(own.into())
}
