// SPDX-License-Identifier: Apache-2.0

//! What the middleware reports with a message, and what each rmw implementation means by it.

use std::{
    ffi::{c_char, CStr},
    time::{Duration, SystemTime},
};

use rclrs::MessageInfo;

/// What an rmw implementation reports with a message. `docs/late.md` shows the same table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Middleware {
    /// The rmw implementation's identifier.
    pub(crate) name: &'static str,
    pub(crate) received: ReceivedTimestamp,
    /// Whether messages have publication sequence numbers.
    pub(crate) has_sequence_numbers: bool,
    /// Whether serialized messages are sent padded to a multiple of 4 bytes, as RTPS has it (2.5, 9.4.1).
    pub(crate) pads: bool,
    /// Whether strings are sent only up to the first NUL inside, by the type support for C and so for Rust.
    pub(crate) sends_to_nul: bool,
}

/// What the received timestamp of an rmw implementation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceivedTimestamp {
    /// The time at which the message arrived on this host.
    Reception,
    /// The time at which the executor or worker took the message. The time that the message waited for it is missing.
    Take,
    /// Not known: the table has no such rmw implementation.
    Unknown,
}

/// Sources: `_assign_message_info` of rmw_fastrtps_shared_cpp; `rmw_take_int` of rmw_cyclonedds_cpp (from 2.2.1 on; before,
/// there was no received timestamp); `SubscriptionData::take_one_message` of rmw_zenoh_cpp;
/// `rmw_connextdds_message_info_from_dds` of rmw_connextdds_common; of the padding, `PublisherData::publish` of rmw_zenoh_cpp;
/// of strings, the type support of rosidl_typesupport_fastrtps_c, which all but rmw_fastrtps_dynamic_cpp (its `StringHelper`) and
/// rmw_cyclonedds_cpp (its `CDRWriter`) serialize by.
pub(crate) const MIDDLEWARES: [Middleware; 5] = [
    Middleware {
        name: "rmw_fastrtps_cpp",
        received: ReceivedTimestamp::Reception,
        has_sequence_numbers: true,
        pads: true,
        sends_to_nul: true,
    },
    Middleware {
        name: "rmw_fastrtps_dynamic_cpp",
        received: ReceivedTimestamp::Reception,
        has_sequence_numbers: true,
        pads: true,
        sends_to_nul: true,
    },
    Middleware {
        name: "rmw_cyclonedds_cpp",
        received: ReceivedTimestamp::Take,
        has_sequence_numbers: false,
        pads: true,
        sends_to_nul: false,
    },
    Middleware {
        name: "rmw_zenoh_cpp",
        received: ReceivedTimestamp::Reception,
        has_sequence_numbers: true,
        pads: false,
        sends_to_nul: true,
    },
    Middleware {
        name: "rmw_connextdds",
        received: ReceivedTimestamp::Reception,
        has_sequence_numbers: true,
        pads: true,
        sends_to_nul: true,
    },
];

static UNKNOWN: Middleware = Middleware {
    name: "unknown",
    received: ReceivedTimestamp::Unknown,
    // By rmw's rule, a middleware without sequence numbers sets `u64::MAX` in each message.
    has_sequence_numbers: true,
    pads: true,
    sends_to_nul: true,
};

// A function of librmw_implementation, which rclrs is linked to.
extern "C" {
    fn rmw_get_implementation_identifier() -> *const c_char;
}

impl Middleware {
    /// Returns the middleware that delivered a message.
    pub(crate) fn of(info: &MessageInfo) -> &'static Self {
        let identifier = info.publisher_gid.implementation_identifier;
        if identifier.is_null() {
            return &UNKNOWN;
        }
        // SAFETY: rmw's rule for `rmw_gid_t::implementation_identifier` is that it is a null-terminated string that lives as
        // long as the middleware's library, which is never unloaded while a subscription takes messages by it.
        Self::named(unsafe { CStr::from_ptr(identifier) }).unwrap_or(&UNKNOWN)
    }

    /// Returns the middleware of this process. Errors with its identifier if it is not one of those above.
    pub(crate) fn in_use() -> Result<&'static Self, String> {
        // SAFETY: The function has no arguments. It returns a string constant of the middleware's library, which is never unloaded.
        let identifier = unsafe { CStr::from_ptr(rmw_get_implementation_identifier()) };
        Self::named(identifier).ok_or_else(|| identifier.to_string_lossy().into_owned())
    }

    fn named(identifier: &CStr) -> Option<&'static Self> {
        MIDDLEWARES.iter().find(|middleware| identifier.to_bytes() == middleware.name.as_bytes())
    }
}

/// What the middleware reports with a message. Times are in nanoseconds since the epoch, 0 if not reported.
#[derive(Clone, Copy, Default)]
pub(crate) struct TransportInfo {
    pub(crate) source: i64,
    /// When the message arrived on this host; 0 where the middleware reports another time than that.
    pub(crate) received: i64,
    pub(crate) publisher: Gid,
    /// `u64::MAX` if the middleware does not number messages.
    pub(crate) number: u64,
}

/// The identifier of a publisher (its GID). rmw has room for more than the 16 bytes of a DDS GUID on Humble, which no
/// middleware uses.
pub(crate) type Gid = [u8; 16];

impl TransportInfo {
    pub(crate) fn new(info: &MessageInfo, middleware: &Middleware) -> Self {
        let mut publisher = Gid::default();
        publisher.iter_mut().zip(&info.publisher_gid.data).for_each(|(to, from)| *to = *from);
        Self {
            source: nanoseconds(info.source_timestamp),
            received: match middleware.received {
                ReceivedTimestamp::Reception => nanoseconds(info.received_timestamp),
                ReceivedTimestamp::Take | ReceivedTimestamp::Unknown => 0,
            },
            publisher,
            number: match middleware.has_sequence_numbers {
                true => info.publication_sequence_number,
                false => u64::MAX,
            },
        }
    }
}

/// Returns a time in nanoseconds since the epoch; 0 if there is none, or if it is out of range (after the year 2262).
#[inline]
fn nanoseconds(time: Option<SystemTime>) -> i64 {
    let Some(time) = time else { return 0 };
    // In 64 bits, as far as that goes: a Duration's own nanoseconds have 128.
    let signed = |duration: Duration| {
        let seconds = i64::try_from(duration.as_secs()).ok()?;
        seconds.checked_mul(1_000_000_000)?.checked_add(i64::from(duration.subsec_nanos()))
    };
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => signed(since).unwrap_or_default(),
        Err(before) => signed(before.duration()).map_or(0, |nanoseconds| -nanoseconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_docs_show_the_same_table() {
        let docs = include_str!("../docs/late.md");
        for Middleware { name, received, has_sequence_numbers, .. } in &MIDDLEWARES {
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
