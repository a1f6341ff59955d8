// SPDX-License-Identifier: Apache-2.0

//! Reserves standard output for this program.

use std::{fs::File, io};

/// Returns standard output for the exclusive use of this program. After the call, file descriptor 1 refers to standard
/// error.
///
/// Middlewares and their libraries log to file descriptor 1. For example, Zenoh logs there if no router runs. Such
/// lines between the objects of `--json`, or in a file of `--print-expectations`, would make the output invalid.
pub fn take_stdout() -> io::Result<File> {
    let own = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(own.into())
}
