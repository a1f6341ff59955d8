// SPDX-License-Identifier: Apache-2.0

//! Features that some rmw implementations lack. A test that needs a missing feature is skipped, and logs this.

use std::ffi::{c_char, c_int, CStr};

use rclrs::Node;
use rclrs_topic_statistics::testing::{middleware_in_use, Middleware};
use ros_env::std_msgs::msg::rmw::Int32;
use topic_statistics_core::record::transport::ReceivedTimestamp;

use crate::skip;

// Functions of librmw_implementation. rclrs is linked to it.
extern "C" {
    fn rmw_get_implementation_identifier() -> *const c_char;
    fn rmw_feature_supported(feature: c_int) -> bool;
}

/// `RMW_FEATURE_MESSAGE_INFO_PUBLICATION_SEQUENCE_NUMBER` of rmw/features.h.
const PUBLICATION_SEQUENCE_NUMBER: c_int = 0;

/// Returns the name of the rmw implementation in use, for example `rmw_fastrtps_cpp`.
pub fn rmw() -> &'static str {
    // SAFETY: The function has no arguments. It returns a string constant of the rmw implementation's library; the
    // library is never unloaded.
    let identifier = unsafe { CStr::from_ptr(rmw_get_implementation_identifier()) };
    identifier.to_str().unwrap()
}

/// Returns whether messages have no publication sequence numbers, so that losses are unknown. If so, logs that `what`
/// is skipped.
pub fn lacks_sequence_numbers(what: &str) -> bool {
    // SAFETY: The function accepts any number. It returns whether the rmw implementation has that feature.
    let has_them = unsafe { rmw_feature_supported(PUBLICATION_SEQUENCE_NUMBER) };
    skip_unless(has_them, what, "provides no sequence numbers")
}

/// Returns whether the received timestamp is not the time of reception, so that the delays before and after the
/// reception are unknown. If so, logs that `what` is skipped.
pub fn lacks_reception_timestamps(what: &str) -> bool {
    skip_unless(
        is_in_use(|middleware| middleware.transport.received == ReceivedTimestamp::Reception),
        what,
        "provides no time of reception",
    )
}

/// Returns whether the middleware is not DDS. Such a middleware delivers to every subscription of the topic and type,
/// whatever the QoS, and rejects no message while a reader is late. If so, logs that `what` is skipped.
pub fn is_no_dds(what: &str) -> bool {
    skip_unless(is_in_use(|middleware| middleware.matches_qos), what, "does not match QoS as DDS does")
}

/// Returns the size of a message of this serialized size as the middleware sends it. Some middlewares pad messages.
pub fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(if is_in_use(|middleware| middleware.pads) { 4 } else { 1 })
}

/// Returns whether the library's table has the middleware in use, and whether this middleware has the property `is`.
fn is_in_use(is: impl Fn(&Middleware) -> bool) -> bool {
    middleware_in_use().is_ok_and(is)
}

/// Returns whether messages cannot be loaned. If so, logs that `what` is skipped.
///
/// With a middleware without loans, a callback that takes a loaned message makes `spin` fail, and rclrs 0.8 crashes.
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
