// SPDX-License-Identifier: Apache-2.0

//! Publishers, their messages, and what the middleware reports with them.

use fastrand::Rng;
use topic_statistics_core::record::transport::{
    Delivered, Delivery, Gid, ReceivedTimestamp, Transport, TransportInfo,
};

use crate::{faults::Fault, oracle::Stamp, plan::Plan};

/// What a middleware reports with a message, by the table in docs/late.md.
#[derive(Clone, Copy)]
pub struct Middleware {
    pub transport: &'static Transport,
    pub has_numbers: bool,
    pub has_reception: bool,
    /// Whether the middleware reports when a message was published.
    pub has_source: bool,
    /// The fault of the plan that leads to this middleware; `None` for a middleware that reports everything.
    pub fault: Option<Fault>,
}

const KNOWN: &Transport = &Transport {
    name: "rmw_fastrtps_cpp",
    received: ReceivedTimestamp::Reception,
    has_sequence_numbers: true,
};
const UNNUMBERED: &Transport =
    &Transport { name: "rmw_cyclonedds_cpp", received: ReceivedTimestamp::Take, has_sequence_numbers: false };
const UNKNOWN: &Transport =
    &Transport { name: "unknown", received: ReceivedTimestamp::Unknown, has_sequence_numbers: true };

impl Middleware {
    pub fn new(plan: &Plan, random: &mut Rng) -> Self {
        let good =
            Self { transport: KNOWN, has_numbers: true, has_reception: true, has_source: true, fault: None };
        if plan.has(Fault::Unnumbered) {
            Self {
                transport: UNNUMBERED,
                has_numbers: false,
                has_reception: false,
                fault: Some(Fault::Unnumbered),
                ..good
            }
        } else if plan.has(Fault::UnknownMiddleware) {
            Self {
                transport: UNKNOWN,
                has_numbers: random.bool(),
                has_reception: false,
                has_source: random.bool(),
                fault: Some(Fault::UnknownMiddleware),
            }
        } else {
            good
        }
    }

    /// Returns what the middleware reports when it delivers a message. `is_filtered` means that a content filter may
    /// have left out neighbouring messages.
    pub fn info(&self, message: &Message, received: Stamp, is_filtered: bool) -> Reported {
        let delivery = Delivery {
            transport: self.transport,
            source: if self.has_source { message.source.value } else { 0 },
            received: received.value,
            publisher: message.publisher,
            number: if self.has_numbers { message.number } else { u64::MAX },
        };
        Reported { delivery, is_filtered }
    }
}

/// What a middleware reports when it delivers a message.
pub struct Reported {
    delivery: Delivery,
    is_filtered: bool,
}

impl Delivered for Reported {
    fn transport(&self) -> &'static Transport {
        self.delivery.transport()
    }

    fn info(&self, transport: &Transport) -> TransportInfo {
        self.delivery.info(transport)
    }

    fn is_filtered(&self) -> bool {
        self.is_filtered
    }
}

#[derive(Clone)]
pub struct Message {
    pub publisher: Gid,
    /// The number of earlier messages of the same publisher.
    pub index: u64,
    pub number: u64,
    pub header: Stamp,
    pub source: Stamp,
}

impl Message {
    pub fn size(&self) -> u32 {
        100 + (self.index % 13) as u32
    }
}

pub struct Publisher {
    pub topic: usize,
    pub gid: Gid,
    /// The sequence number of the first message, and (in the next field) the number of messages sent.
    pub first: u64,
    pub sent: u64,
    /// The clock of the publisher's host minus this host's clock, and the drift of the difference in nanoseconds per
    /// second. `None` if the publisher is on this host.
    pub remote: Option<(i64, i64)>,
    pub is_stamped: bool,
    /// Whether only one of the stamps and the receiving node is on simulated time.
    pub has_other_clock: bool,
    /// The stamp of all messages while the driver is stuck; `None` while the driver is not stuck.
    pub stuck: Option<Stamp>,
    pub interval: i64,
}

impl Publisher {
    /// Restarts the publisher with another GID. Its sequence numbers begin again.
    pub fn restart(&mut self, random: &mut Rng) {
        (self.first, self.sent) = (1, 0);
        self.gid.iter_mut().for_each(|byte| *byte = random.u8(..));
    }

    /// Returns the number of the next message, and counts it. `u64::MAX` is not used as a number.
    pub fn next(&mut self) -> (u64, u64) {
        let number = (u128::from(self.first) + u128::from(self.sent)) % u128::from(u64::MAX);
        self.sent += 1;
        (self.sent - 1, number as u64)
    }
}
