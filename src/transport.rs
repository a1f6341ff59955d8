// SPDX-License-Identifier: Apache-2.0

//! Reads the values that the middleware reports with a message. The core knows the meaning of these values for each rmw
//! implementation.

use std::{
    ffi::{c_char, CStr},
    time::{Duration, SystemTime},
};

use rclrs::{MessageInfo, ServiceInfo};
use topic_statistics_core::record::{
    middleware::UNKNOWN,
    transport::{Delivered, Gid, Transport, TransportInfo},
};

pub use topic_statistics_core::record::middleware::Middleware;

// A function of librmw_implementation, which rclrs is linked to.
extern "C" {
    fn rmw_get_implementation_identifier() -> *const c_char;
}

fn middleware_of(info: &MessageInfo) -> &'static Middleware {
    let identifier = info.publisher_gid.implementation_identifier;
    if identifier.is_null() {
        return &UNKNOWN;
    }
    // SAFETY: By rmw's rule, `rmw_gid_t::implementation_identifier` is a null-terminated string that lives as long as
    // the middleware's library. The library is never unloaded while a subscription takes messages through it.
    Middleware::named(unsafe { CStr::from_ptr(identifier) }).unwrap_or(&UNKNOWN)
}

/// Returns the middleware of this process. Errors with the middleware's identifier if the core does not know the
/// middleware.
pub fn middleware_in_use() -> Result<&'static Middleware, String> {
    // SAFETY: The function has no arguments. It returns a string constant of the middleware's library; the library is
    // never unloaded.
    let identifier = unsafe { CStr::from_ptr(rmw_get_implementation_identifier()) };
    Middleware::named(identifier).ok_or_else(|| identifier.to_string_lossy().into_owned())
}

/// Returns the middleware of this process; `UNKNOWN` if the core does not know the middleware.
pub(crate) fn middleware_in_use_or_unknown() -> &'static Middleware {
    middleware_in_use().unwrap_or(&UNKNOWN)
}

pub(crate) struct Taken<'a>(pub(crate) &'a MessageInfo);

impl Delivered for Taken<'_> {
    fn transport(&self) -> &'static Transport {
        &middleware_of(self.0).transport
    }

    fn info(&self, transport: &Transport) -> TransportInfo {
        let Self(info) = self;
        let mut publisher = Gid::default();
        publisher.iter_mut().zip(&info.publisher_gid.data).for_each(|(to, from)| *to = *from);
        let (source, number) = (nanoseconds(info.source_timestamp), info.publication_sequence_number);
        TransportInfo::new(transport, source, || nanoseconds(info.received_timestamp), publisher, number)
    }
}

/// Returns the source timestamp and the received timestamp of a request or a response, in nanoseconds since the epoch;
/// a timestamp that the middleware does not report is 0.
pub(crate) fn timestamps(middleware: &Middleware, info: &ServiceInfo) -> (i64, i64) {
    let [source, received] = [info.source_timestamp, info.received_timestamp].map(nanoseconds);
    middleware.transport.service_timestamps(source, received)
}

/// Returns a time in nanoseconds since the epoch; 0 if `time` is `None` or out of range (after the year 2262).
#[inline]
fn nanoseconds(time: Option<SystemTime>) -> i64 {
    let Some(time) = time else { return 0 };
    // Checked arithmetic in 64 bits is faster than `Duration::as_nanos`, which calculates in 128 bits.
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
    use std::{ffi::CString, time::UNIX_EPOCH};

    use rclrs::PublisherGid;
    use topic_statistics_core::record::{middleware::MIDDLEWARES, transport::ReceivedTimestamp};

    use super::*;

    #[test]
    fn the_docs_show_the_same_table() {
        let docs = include_str!("../docs/late.md");
        for Middleware { transport, matches_qos, .. } in &MIDDLEWARES {
            let row = format!(
                "| `{}` | {} | {} | {} |",
                transport.name,
                match transport.received {
                    ReceivedTimestamp::Reception => "reception",
                    ReceivedTimestamp::Take => "take",
                    ReceivedTimestamp::Unknown => "unknown",
                },
                if transport.has_sequence_numbers { "yes" } else { "no" },
                if *matches_qos { "QoS and type" } else { "type" }
            );
            assert!(docs.contains(&row), "docs/late.md has no row {row:?}");
        }
    }

    #[test]
    fn a_message_names_its_middleware() {
        let named = |identifier: Option<&CStr>| {
            let info = MessageInfo {
                source_timestamp: None,
                received_timestamp: None,
                publication_sequence_number: 1,
                reception_sequence_number: u64::MAX,
                publisher_gid: PublisherGid {
                    data: Default::default(),
                    implementation_identifier: identifier.map_or(std::ptr::null(), CStr::as_ptr),
                },
            };
            Taken(&info).transport().name
        };
        for Middleware { transport, .. } in &MIDDLEWARES {
            assert_eq!(named(Some(&CString::new(transport.name).unwrap())), transport.name);
        }
        for identifier in [None, Some(c"rmw_of_tomorrow")] {
            assert_eq!(named(identifier), UNKNOWN.transport.name);
        }
    }

    #[test]
    fn a_received_timestamp_of_a_request_is_believed_where_it_can_be_one() {
        let at = |milliseconds| Some(UNIX_EPOCH + Duration::from_millis(milliseconds));
        let request_id = rclrs::RequestId { writer_guid: Default::default(), sequence_number: 1 };
        let info = |received| ServiceInfo {
            source_timestamp: at(1000),
            received_timestamp: at(received),
            request_id: request_id.clone(),
        };
        for middleware in MIDDLEWARES.iter().chain([&UNKNOWN]) {
            let has_reception = middleware.transport.received == ReceivedTimestamp::Reception;
            let received = if has_reception { 1_002_000_000 } else { 0 };
            assert_eq!(timestamps(middleware, &info(1002)), (1_000_000_000, received), "{middleware:?}");
            assert_eq!(timestamps(middleware, &info(1000)), (1_000_000_000, 0), "{middleware:?}");
        }
    }
}
