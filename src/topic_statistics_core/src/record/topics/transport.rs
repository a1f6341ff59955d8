// SPDX-License-Identifier: Apache-2.0

//! What a middleware reports with a message, and what it means by it.

/// What a middleware reports with each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// The name of the middleware, for warnings.
    pub name: &'static str,
    /// What its received timestamp is.
    pub received: ReceivedTimestamp,
    /// Whether messages have publication sequence numbers.
    pub has_sequence_numbers: bool,
}

impl Transport {
    /// Returns the source timestamp and the received timestamp of a request or a response, in nanoseconds since the
    /// epoch; 0 where the middleware does not report them.
    ///
    /// rmw_fastrtps reports the source timestamp of a request as its received timestamp, too (tried with that of
    /// Kilted).
    pub fn service_timestamps(&self, source: i64, received: i64) -> (i64, i64) {
        let is_known = self.received == ReceivedTimestamp::Reception && received != source;
        (source, if is_known { received } else { 0 })
    }
}

/// What the received timestamp of a middleware is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceivedTimestamp {
    /// The time at which the message arrived on this host.
    Reception,
    /// The time at which the executor or worker took the message. The time that the message waited for it is missing.
    Take,
    /// Not known.
    Unknown,
}

/// A message that a middleware has delivered.
pub trait Delivered {
    /// Returns what its middleware reports with each message. Called for the first message of a subscription.
    fn transport(&self) -> &'static Transport;

    /// Returns what the middleware has reported with this one, by [`TransportInfo::new`].
    fn info(&self, transport: &Transport) -> TransportInfo;

    /// Returns whether a content filter may have left out messages before this one, or after it: they are not lost.
    fn is_filtered(&self) -> bool {
        false
    }
}

/// A delivered message as a value. Times are in nanoseconds since the epoch, 0 if not reported.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// What the middleware reports with each message.
    pub transport: &'static Transport,
    /// The source timestamp.
    pub source: i64,
    /// The received timestamp.
    pub received: i64,
    /// The publisher.
    pub publisher: Gid,
    /// The publication sequence number; `u64::MAX` if there is none.
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

/// What is known of the way of a message. Times are in nanoseconds since the epoch, 0 if not known.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransportInfo {
    pub(crate) source: i64,
    /// When the message arrived on this host; 0 where the middleware reports another time than that.
    pub(crate) received: i64,
    pub(crate) publisher: Gid,
    /// `u64::MAX` if the middleware does not number messages.
    pub(crate) number: u64,
}

/// The identifier of a publisher (its GID). On Humble rmw has room for more than the 16 bytes of a DDS GUID; no
/// middleware uses more.
pub type Gid = [u8; 16];

impl TransportInfo {
    /// Keeps of what the middleware has reported what its [`Transport`] vouches for. `received` returns the received
    /// timestamp.
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
