// SPDX-License-Identifier: Apache-2.0

//! The messages that a subscription has lost, and those that come late.

use crate::{
    collector::{steps, FollowedPublisher, Sequence, SequenceTracker, SummaryCollector},
    distributions::Distributions,
    metric::Metric,
    record::{clocks::clock::SystemClock, topics::transport::Gid},
    summary::Summary,
    timestamp::Timestamp,
    totals::PublisherTotals,
};

/// The gaps in the publishers' sequence numbers, of a window, and the losses since the creation.
#[derive(Default)]
pub(super) struct Losses {
    pub(super) sequences: SequenceTracker<Gid>,
    gaps: SummaryCollector,
    /// The last gaps of this window, which are not in `gaps` yet.
    open: [Option<OpenGap>; OpenGap::MOST],
    /// Where the next gap is kept.
    next: usize,
    /// How often a publisher had been replaced when the window started.
    evictions: u32,
}

/// A gap that messages may still fill: two threads that take neighbouring messages can record them in the other order.
struct OpenGap {
    publisher: Gid,
    /// The number behind it.
    number: u64,
    /// How many numbers were missing, and how many still are.
    length: u64,
    missing: u64,
}

impl OpenGap {
    /// How many gaps are open: more than neighbouring messages are recorded in another order at a time.
    const MOST: usize = 4;
}

impl Losses {
    /// Adds a message. `is_filtered`: messages before or after it may have been left out on purpose. They are not lost.
    pub(super) fn add_message(
        &mut self,
        publisher: Gid,
        number: u64,
        callback: i64,
        is_filtered: bool,
        distributions: &mut Distributions,
    ) {
        if is_filtered {
            // One that was taken before the filter was set may have been recorded since.
            self.sequences.pause_publisher(publisher);
        }
        match self.sequences.accept(publisher, number, callback) {
            Sequence::Next { gap: 0 } => self.add_gap(0, distributions),
            Sequence::Next { gap } => {
                let place = self.next;
                self.close(place, distributions);
                self.open[place] = Some(OpenGap { publisher, number, length: gap, missing: gap });
                self.next = (place + 1) % OpenGap::MOST;
            }
            Sequence::Late => self.fill(publisher, number, distributions),
            _ => {}
        }
        if is_filtered {
            self.sequences.pause_publisher(publisher);
        }
    }

    /// Takes a late message out of its gap: it was recorded in another order than sent, and not lost.
    #[cold]
    fn fill(&mut self, publisher: Gid, number: u64, distributions: &mut Distributions) {
        let has_number = |open: &&mut OpenGap| {
            open.publisher == publisher && (1..=open.length).contains(&steps(number, open.number))
        };
        let is_taken_back = self.sequences.is_taken_back(number);
        // The latest one first: after a pause, a publisher can have others of the same numbers.
        let (later, earlier) = self.open.split_at_mut(self.next);
        let open = later.iter_mut().rev().chain(earlier.iter_mut().rev()).flatten().find(has_number);
        if let Some(open) = open.filter(|_| is_taken_back) {
            open.missing -= 1;
            self.add_gap(0, distributions);
        }
    }

    /// Adds a gap that is open. None of its messages is expected any more.
    #[cold]
    fn close(&mut self, place: usize, distributions: &mut Distributions) {
        if let Some(open) = self.open[place].take() {
            self.add_gap(open.missing, distributions);
        }
    }

    fn add_gap(&mut self, gap: u64, distributions: &mut Distributions) {
        self.gaps.accept(gap as f64);
        distributions.accept(Metric::PublicationSeqGap, gap as f64);
    }
    /// Closes the gaps at the end of a window.
    pub(super) fn close_all(&mut self, distributions: &mut Distributions) {
        (0..OpenGap::MOST).for_each(|place| self.close(place, distributions));
    }

    /// Ends a window. Returns the gaps before its messages; no samples where losses are unknown, so that gaps are
    /// missing.
    pub(super) fn take(&mut self) -> Summary {
        let gaps = self.gaps.take();
        let evictions = self.sequences.evictions();
        let is_complete = std::mem::replace(&mut self.evictions, evictions) == evictions;
        self.sequences.followed().filter(|_| is_complete).map_or_else(Summary::default, |_| gaps)
    }

    /// Starts the first window after the statistics were disabled: what was sent meanwhile is not lost.
    pub(super) fn restart(&mut self) {
        (self.gaps, self.open) = (SummaryCollector::default(), Default::default());
        self.evictions = self.sequences.evictions();
        self.sequences.pause();
    }

    /// Returns the messages received from and lost of each publisher that is followed.
    pub(super) fn publishers(&self, system: SystemClock) -> Vec<PublisherTotals> {
        let is_known = !self.sequences.has_lost_track();
        let totals = |publisher: &FollowedPublisher<Gid>| PublisherTotals {
            gid: publisher.gid,
            received: publisher.received,
            lost: publisher.lost().filter(|_| is_known),
            out_of_order: publisher.out_of_order().filter(|_| is_known),
            last_message: Timestamp::from_nanoseconds(system.at(publisher.last_heard)),
        };
        self.sequences.publishers().iter().map(totals).collect()
    }
}
