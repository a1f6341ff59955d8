// SPDX-License-Identifier: Apache-2.0

//! What the rmw implementation in use does not provide. What needs it is skipped, with a line that says so.

use std::{
    ffi::{c_char, c_int, CStr},
    io::Write,
};

use rclrs::Node;
use ros_env::std_msgs::msg::rmw::Int32;

// Functions of librmw_implementation, which rclrs is linked to.
extern "C" {
    fn rmw_get_implementation_identifier() -> *const c_char;
    fn rmw_feature_supported(feature: c_int) -> bool;
}

/// `RMW_FEATURE_MESSAGE_INFO_PUBLICATION_SEQUENCE_NUMBER` of rmw/features.h.
const PUBLICATION_SEQUENCE_NUMBER: c_int = 0;

/// Returns the name of the rmw implementation in use: `rmw_fastrtps_cpp`.
pub fn rmw() -> &'static str {
    // SAFETY: it takes nothing, and returns a string constant of the rmw implementation's library, which is never unloaded.
    let identifier = unsafe { CStr::from_ptr(rmw_get_implementation_identifier()) };
    identifier.to_str().unwrap()
}

/// Whether messages have no publication sequence numbers, so that losses are unknown. `what` is skipped then.
pub fn lacks_sequence_numbers(what: &str) -> bool {
    // SAFETY: it takes a number, and returns whether that is a feature of the rmw implementation.
    let has_them = unsafe { rmw_feature_supported(PUBLICATION_SEQUENCE_NUMBER) };
    skip_unless(has_them, what, "does not number messages")
}

/// Whether the received timestamp is not the time of reception, so that the delays before and after it are unknown. `what` is
/// skipped then.
pub fn lacks_reception_timestamps(what: &str) -> bool {
    skip_unless(rmw() != "rmw_cyclonedds_cpp", what, "does not say when a message was received")
}

/// Whether messages cannot be loaned: a callback that takes a loaned message is an error of `spin` then, and rclrs 0.8
/// crashes. `what` is skipped then.
pub fn lacks_loans(node: &Node, what: &str) -> bool {
    let publisher = node.create_publisher::<Int32>("can_it_be_loaned").unwrap();
    skip_unless(publisher.can_loan_messages(), what, "does not loan messages")
}

fn skip_unless(is_there: bool, what: &str, lack: &str) -> bool {
    if !is_there {
        skip(what, &format!("{} {lack}", rmw()));
    }
    !is_there
}

/// Writes a line that says what is not tested, and why.
pub fn skip(what: &str, why: &str) {
    // Not by `eprintln!`: of a test that passes, the harness would not show it.
    let _ = writeln!(std::io::stderr(), "skipped: {what}: {why}");
}
