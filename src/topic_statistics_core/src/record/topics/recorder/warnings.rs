// SPDX-License-Identifier: Apache-2.0

//! Warnings about a subscription's statistics, for the author or the operator of a node.

use crate::{collector::SequenceTracker, metric::Metric, record::topics::transport::Gid};

/// The warnings of a subscription. Each warning is given only once.
#[derive(Clone, Copy, Default)]
pub(super) struct Warnings {
    raised: u8,
    given: u8,
}

#[derive(Clone, Copy)]
pub(super) enum Warning {
    NoReceptionTime = 1,
    NoSequenceNumbers = 2,
    TooManyPublishers = 4,
    SamplesLost = 8,
    NoClock = 16,
    TimeJumps = 32,
    OtherThanSystemTime = 64,
    OtherThanSimulatedTime = 128,
}

impl Warnings {
    pub(super) fn raise(&mut self, warning: Warning) {
        self.raised |= warning as u8;
    }

    /// Returns the raised warnings that this function has not returned before.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Warning> {
        let new = self.raised & !self.given;
        self.given |= new;
        [
            Warning::NoReceptionTime,
            Warning::NoSequenceNumbers,
            Warning::TooManyPublishers,
            Warning::SamplesLost,
            Warning::NoClock,
            Warning::TimeJumps,
            Warning::OtherThanSystemTime,
            Warning::OtherThanSimulatedTime,
        ]
        .into_iter()
        .filter(move |warning| new & *warning as u8 != 0)
    }
}

impl Warning {
    /// Returns the text for the log. `unrecorded` is the number of messages in the window that were counted without
    /// being measured.
    pub(super) fn text(self, topic: &str, middleware: &str, unrecorded: u64) -> String {
        let gap = Metric::PublicationSeqGap;
        match self {
            Self::NoReceptionTime => format!(
                "{} and {} of {topic} are NaN: {middleware} does not report when a message was received; use {}",
                Metric::SourceToReceive,
                Metric::ReceiveToCallback,
                Metric::SourceToCallback
            ),
            Self::NoSequenceNumbers => format!(
                "Losses on {topic} are not known, and {gap} is NaN: {middleware} does not number messages"
            ),
            Self::TooManyPublishers => format!(
                "Losses on {topic} since its creation are not known any more, and {gap} is NaN in each window \
                 with a further publisher: it has more than {} publishers",
                SequenceTracker::<Gid>::PUBLISHERS
            ),
            Self::NoClock => format!(
                "The ages of messages on {topic} are NaN: the node uses simulated time, and there is no /clock"
            ),
            Self::TimeJumps => format!(
                "The ages of messages on {topic} are NaN: simulated time jumps again and again; look for a second \
                 publisher of /clock"
            ),
            Self::OtherThanSystemTime => format!(
                "The ages of messages on {topic} are NaN: the header stamps are on another clock: only one of \
                 the stamps and the system clock is before the year 2000; if the stamps are on simulated time, set \
                 use_sim_time"
            ),
            Self::OtherThanSimulatedTime => format!(
                "The ages of messages on {topic} are NaN: the node uses simulated time, but the header stamps are on \
                 the system clock; set use_sim_time in the node that publishes them"
            ),
            Self::SamplesLost => format!(
                "The thread that ends the windows of {topic} was preempted for too long: {unrecorded} messages \
                 were counted without being measured; the other figures of such a window are NaN"
            ),
        }
    }
}
