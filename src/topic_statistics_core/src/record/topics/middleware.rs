// SPDX-License-Identifier: Apache-2.0

//! What each rmw implementation of ROS 2 reports with a message, and how it sends a message.

use std::ffi::CStr;

use super::transport::{ReceivedTimestamp, Transport};

/// What an rmw implementation reports with a message, and how it sends a message. `docs/late.md` shows the same table.
#[derive(Debug, PartialEq, Eq)]
pub struct Middleware {
    /// What the rmw implementation reports with a message. `Transport::name` is the identifier of the rmw
    /// implementation.
    pub transport: Transport,
    /// Whether a publisher reaches only subscriptions whose requested QoS it satisfies, as in DDS (DDS 1.4, 2.2.3).
    /// Zenoh has no such rule: only the topic and the type have to match.
    pub matches_qos: bool,
    /// Whether serialized messages are padded to a multiple of 4 bytes when sent, as RTPS requires (2.5, 9.4.1).
    pub pads: bool,
    /// Whether the type support for C, which Rust also uses, sends strings only up to the first NUL character.
    pub sends_to_nul: bool,
}

/// The known rmw implementations.
///
/// Sources for the received timestamp and the sequence numbers: `_assign_message_info` of rmw_fastrtps_shared_cpp;
/// `rmw_take_int` of rmw_cyclonedds_cpp (from 2.2.1 on; earlier versions have no received timestamp);
/// `SubscriptionData::take_one_message` of rmw_zenoh_cpp; `rmw_connextdds_message_info_from_dds` of
/// rmw_connextdds_common. Sources for the matching: `rmw_qos.cpp` of rmw_zenoh_cpp ("there are not qos
/// incompatibilities"; tried with 0.6.7), and DDS 1.4, 2.2.3, for the other implementations. Source for the padding:
/// `PublisherData::publish` of rmw_zenoh_cpp. Source for the strings: the type support of
/// rosidl_typesupport_fastrtps_c, which serializes for all implementations except rmw_fastrtps_dynamic_cpp (its
/// `StringHelper`) and rmw_cyclonedds_cpp (its `CDRWriter`).
pub static MIDDLEWARES: [Middleware; 5] = [
    dds("rmw_fastrtps_cpp", ReceivedTimestamp::Reception, true),
    dds("rmw_fastrtps_dynamic_cpp", ReceivedTimestamp::Reception, true),
    Middleware { sends_to_nul: false, ..dds("rmw_cyclonedds_cpp", ReceivedTimestamp::Take, false) },
    Middleware {
        matches_qos: false,
        pads: false,
        ..dds("rmw_zenoh_cpp", ReceivedTimestamp::Reception, true)
    },
    dds("rmw_connextdds", ReceivedTimestamp::Reception, true),
];

/// A middleware that is not in the table. It is unknown whether it matches by QoS, so incompatible QoS is never
/// reported. Sequence numbers are assumed, because a middleware without them sets the number `u64::MAX` in each
/// message, by rmw's rule.
pub static UNKNOWN: Middleware =
    Middleware { matches_qos: false, ..dds("unknown", ReceivedTimestamp::Unknown, true) };

/// Returns the table row of a typical DDS implementation that serializes messages with the type support for C.
const fn dds(name: &'static str, received: ReceivedTimestamp, has_sequence_numbers: bool) -> Middleware {
    let transport = Transport { name, received, has_sequence_numbers };
    Middleware { transport, matches_qos: true, pads: true, sends_to_nul: true }
}

impl Middleware {
    /// Returns the middleware with the given identifier; `None` if the identifier is unknown.
    pub fn named(identifier: &CStr) -> Option<&'static Self> {
        MIDDLEWARES.iter().find(|middleware| identifier.to_bytes() == middleware.transport.name.as_bytes())
    }
}
