// SPDX-License-Identifier: Apache-2.0

//! The origin of a run: the host, the ROS distribution and the middleware.

use std::{
    borrow::Cow,
    env,
    ffi::{c_char, CStr},
};

use topic_statistics_observe::page::Origin;

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

/// Returns the origin of this process's measurements.
pub fn of_this_process() -> Origin {
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
