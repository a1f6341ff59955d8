// SPDX-License-Identifier: Apache-2.0

//! What each rmw implementation provides with a message.

use std::ffi::CStr;

use rclrs::MessageInfo;

/// What an rmw implementation provides with a message. `docs/late.md` shows the same table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Middleware {
    /// The rmw implementation's identifier.
    pub(crate) name: &'static str,
    pub(crate) received: ReceivedTimestamp,
    /// Whether messages have publication sequence numbers.
    pub(crate) has_sequence_numbers: bool,
}

/// What the received timestamp is the time of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceivedTimestamp {
    /// The arrival on this host.
    Reception,
    /// The take by the executor or worker: the time that the message waited for it is missing.
    Take,
    /// The middleware is not known here.
    Unknown,
}

/// Sources: `_assign_message_info` of rmw_fastrtps_shared_cpp; `rmw_take_int` of rmw_cyclonedds_cpp (from 2.2.1 on; before,
/// there was no received timestamp); `SubscriptionData::take_one_message` of rmw_zenoh_cpp;
/// `rmw_connextdds_message_info_from_dds` of rmw_connextdds_common.
pub(crate) const MIDDLEWARES: [Middleware; 5] = [
    Middleware {
        name: "rmw_fastrtps_cpp",
        received: ReceivedTimestamp::Reception,
        has_sequence_numbers: true,
    },
    Middleware {
        name: "rmw_fastrtps_dynamic_cpp",
        received: ReceivedTimestamp::Reception,
        has_sequence_numbers: true,
    },
    Middleware { name: "rmw_cyclonedds_cpp", received: ReceivedTimestamp::Take, has_sequence_numbers: false },
    Middleware { name: "rmw_zenoh_cpp", received: ReceivedTimestamp::Reception, has_sequence_numbers: true },
    Middleware { name: "rmw_connextdds", received: ReceivedTimestamp::Reception, has_sequence_numbers: true },
];

static UNKNOWN: Middleware = Middleware {
    name: "unknown",
    received: ReceivedTimestamp::Unknown,
    // By rmw's rule, a middleware without them says so in each message.
    has_sequence_numbers: true,
};

impl Middleware {
    /// Returns the middleware that a message came by.
    pub(crate) fn of(info: &MessageInfo) -> &'static Self {
        let identifier = info.publisher_gid.implementation_identifier;
        if identifier.is_null() {
            return &UNKNOWN;
        }
        // SAFETY: rmw's rule for `rmw_gid_t::implementation_identifier` is that it is a null-terminated string that lives as
        // long as the middleware's library, which is never unloaded while a subscription takes messages by it.
        let identifier = unsafe { CStr::from_ptr(identifier) };
        MIDDLEWARES
            .iter()
            .find(|middleware| identifier.to_bytes() == middleware.name.as_bytes())
            .unwrap_or(&UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_docs_show_the_same_table() {
        let docs = include_str!("../docs/late.md");
        for Middleware { name, received, has_sequence_numbers } in &MIDDLEWARES {
            let row = format!(
                "| `{name}` | {} | {} |",
                match received {
                    ReceivedTimestamp::Reception => "reception",
                    ReceivedTimestamp::Take => "take",
                    ReceivedTimestamp::Unknown => "unknown",
                },
                if *has_sequence_numbers { "yes" } else { "no" }
            );
            assert!(docs.contains(&row), "docs/late.md has no row {row:?}");
        }
    }
}
