// SPDX-License-Identifier: Apache-2.0

//! Features that the rmw implementation in use does not provide. A test that needs one is skipped, and a line is
//! logged.

use std::{
    ffi::{c_char, c_int, CStr},
    io::Write,
};

use rclrs::Node;
use ros_env::std_msgs::msg::rmw::Int32;

// Functions of librmw_implementation. rclrs is linked to it.
extern "C" {
    fn rmw_get_implementation_identifier() -> *const c_char;
    fn rmw_feature_supported(feature: c_int) -> bool;
}

/// `RMW_FEATURE_MESSAGE_INFO_PUBLICATION_SEQUENCE_NUMBER` of rmw/features.h.
const PUBLICATION_SEQUENCE_NUMBER: c_int = 0;

/// Returns the name of the rmw implementation in use, for example `rmw_fastrtps_cpp`.
pub fn rmw() -> &'static str {
    // SAFETY: The function has no arguments. It returns a string constant of the rmw implementation's library, which is
    // never unloaded.
    let identifier = unsafe { CStr::from_ptr(rmw_get_implementation_identifier()) };
    identifier.to_str().unwrap()
}

/// Returns whether messages have no publication sequence numbers, so that losses are unknown. Logs that `what` is
/// skipped.
pub fn lacks_sequence_numbers(what: &str) -> bool {
    // SAFETY: The function accepts any number. It returns whether the rmw implementation has that feature.
    let has_them = unsafe { rmw_feature_supported(PUBLICATION_SEQUENCE_NUMBER) };
    skip_unless(has_them, what, "provides no sequence numbers")
}

/// Returns whether the received timestamp is not the time of reception, so that the delays before and after it are
/// unknown. Logs that `what` is skipped.
pub fn lacks_reception_timestamps(what: &str) -> bool {
    skip_unless(rmw() != "rmw_cyclonedds_cpp", what, "provides no time of reception")
}

/// Returns whether messages cannot be loaned. Logs that `what` is skipped.
///
/// Without loans, a callback that takes a loaned message is an error of `spin`, and rclrs 0.8 crashes.
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

/// Logs what is not tested, and why.
pub fn skip(what: &str, why: &str) {
    // The harness hides the output of `eprintln!` if the test passes.
    let _ = writeln!(std::io::stderr(), "skipped: {what}: {why}");
}
