// SPDX-License-Identifier: Apache-2.0

//! What a middleware reports with a message, and what the reported values mean.

/// What a middleware reports with each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// The name of the middleware, for warnings.
    pub name: &'static str,
    /// What the received timestamp of the middleware means.
    pub received: ReceivedTimestamp,
    /// Whether messages have publication sequence numbers.
    pub has_sequence_numbers: bool,
}

impl Transport {
    /// Returns the source timestamp and the received timestamp of a request or a response, in nanoseconds since the
    /// Unix epoch; 0 if the middleware does not report the timestamp.
    ///
    /// rmw_fastrtps reports the source timestamp of a request also as the received timestamp (tried with the version of
    /// Kilted).
    pub fn service_timestamps(&self, source: i64, received: i64) -> (i64, i64) {
        let is_known = self.received == ReceivedTimestamp::Reception && received != source;
        (source, if is_known { received } else { 0 })
    }
}

/// What the received timestamp of a middleware means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceivedTimestamp {
    /// The time at which the message arrived on this host.
    Reception,
    /// The time at which the executor or the worker took the message. So this timestamp does not include how long the
    /// message waited to be taken.
    Take,
    /// The meaning is unknown.
    Unknown,
}

/// A message that a middleware has delivered.
pub trait Delivered {
    /// Returns what the middleware reports with each message. The recorder calls this function for the first message of
    /// a subscription.
    fn transport(&self) -> &'static Transport;

    /// Returns what the middleware reported with this message. Implementations return the result of
    /// [`TransportInfo::new`].
    fn info(&self, transport: &Transport) -> TransportInfo;

    /// Returns whether a content filter may have left out messages before or after this message. Such messages are not
    /// lost.
    fn is_filtered(&self) -> bool {
        false
    }
}

/// A delivered message as a plain value. Times are in nanoseconds since the Unix epoch; 0 if the middleware does not
/// report the time.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// What the middleware reports with each message.
    pub transport: &'static Transport,
    /// The source timestamp of the message.
    pub source: i64,
    /// The received timestamp of the message.
    pub received: i64,
    /// The identifier of the publisher.
    pub publisher: Gid,
    /// The publication sequence number; `u64::MAX` if the message has no number.
    pub number: u64,
}

impl Delivered for Delivery {
    fn transport(&self) -> &'static Transport {
        self.transport
    }

    fn info(&self, transport: &Transport) -> TransportInfo {
        TransportInfo::new(transport, self.source, || self.received, self.publisher, self.number)
    }
}

/// The values that the middleware reports for one message. Times are in nanoseconds since the Unix epoch; 0 if unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransportInfo {
    pub(crate) source: i64,
    /// The time at which the message arrived on this host; 0 if the middleware's received timestamp means another time.
    pub(crate) received: i64,
    pub(crate) publisher: Gid,
    /// `u64::MAX` if the middleware does not number messages.
    pub(crate) number: u64,
}

/// The identifier of a publisher (its GID). On Humble, the type in rmw has room for more than the 16 bytes of a DDS
/// GUID, but no middleware uses more.
pub type Gid = [u8; 16];

impl TransportInfo {
    /// Keeps only those reported values that are reliable according to the middleware's [`Transport`]. `received`
    /// returns the received timestamp.
    #[inline]
    pub fn new(
        transport: &Transport,
        source: i64,
        received: impl FnOnce() -> i64,
        publisher: Gid,
        number: u64,
    ) -> Self {
        Self {
            source,
            received: match transport.received {
                ReceivedTimestamp::Reception => received(),
                ReceivedTimestamp::Take | ReceivedTimestamp::Unknown => 0,
            },
            publisher,
            number: match transport.has_sequence_numbers {
                true => number,
                false => u64::MAX,
            },
        }
    }
}
