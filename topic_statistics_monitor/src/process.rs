// SPDX-License-Identifier: Apache-2.0

//! This process: its standard output, its errors, its middleware, and the origin of its measurements.

use std::{
    borrow::Cow,
    env,
    error::Error,
    ffi::{c_char, CStr},
    fs::File,
    io,
};

pub use topic_statistics_observe::error::{Failure, FAILED, UNFULFILLED};
use topic_statistics_observe::{error, page::Origin};

// A function of librmw_implementation. rclrs links to this library.
extern "C" {
    fn rmw_get_implementation_identifier() -> *const c_char;
}

/// Returns the name of the middleware, such as `rmw_fastrtps_cpp`.
pub fn middleware() -> Cow<'static, str> {
    // SAFETY: The function has no arguments. It returns a string constant of the middleware's library, which is never
    // unloaded.
    let middleware: &'static CStr = unsafe { CStr::from_ptr(rmw_get_implementation_identifier()) };
    middleware.to_string_lossy()
}

pub fn origin() -> Origin {
    let middleware = middleware();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let distribution = env::var("ROS_DISTRO").unwrap_or_else(|_| "-".to_owned());
    Origin {
        title: format!("ROS 2 topics on {host}"),
        facts: vec![("Host", host), ("ROS 2", format!("{distribution}, {middleware}"))],
        program: "topic_monitor",
        arguments: env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect(),
    }
}

/// Returns standard output for the exclusive use of this program. From then on, file descriptor 1, to which middlewares
/// log, refers to standard error. For example, lines of Zenoh between the objects of `--json` would make the output
/// invalid.
pub fn take_stdout() -> io::Result<File> {
    let own = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(own.into())
}

/// Writes a text to standard error. The caller must have escaped names from the network.
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
