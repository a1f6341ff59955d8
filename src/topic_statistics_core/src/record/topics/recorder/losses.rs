// SPDX-License-Identifier: Apache-2.0

//! The messages that a subscription has lost, and the messages that arrive late.

use crate::{
    collector::{steps, FollowedPublisher, Sequence, SequenceTracker, SummaryCollector},
    distributions::Distributions,
    metric::Metric,
    record::{clocks::clock::SystemClock, topics::transport::Gid},
    summary::Summary,
    timestamp::Timestamp,
    totals::PublisherTotals,
};

/// The gaps in the publishers' sequence numbers in a window, and the losses since the creation.
#[derive(Default)]
pub(super) struct Losses {
    pub(super) sequences: SequenceTracker<Gid>,
    gaps: SummaryCollector,
    /// The last gaps of this window, which are not added to `gaps` yet.
    open: [Option<OpenGap>; OpenGap::MOST],
    /// The index in `open` where the next gap is stored.
    next: usize,
    /// The number of publishers that had been replaced when the window started.
    evictions: u32,
}

/// A gap that may still be filled by messages. Two threads that take two messages in a row can record them in the
/// opposite order.
struct OpenGap {
    publisher: Gid,
    /// The sequence number of the message after the gap.
    number: u64,
    /// How many numbers were missing when the gap was found. `missing` is how many numbers are still missing.
    length: u64,
    missing: u64,
}

impl OpenGap {
    /// The largest number of open gaps. Several threads swap only a few messages at the same time, so more gaps are not
    /// needed.
    const MOST: usize = 4;
}

impl Losses {
    /// Adds a message, and counts the messages missing before it. `is_filtered` means that messages before or after
    /// this message may have been left out by a content filter. Such messages are not lost.
    pub(super) fn add_message(
        &mut self,
        publisher: Gid,
        number: u64,
        callback: i64,
        is_filtered: bool,
        distributions: &mut Distributions,
    ) {
        if is_filtered {
            // A message that was taken before the filter was set may have been recorded after the last pause, and ended
            // the pause. So this publisher is paused again.
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

    /// Subtracts a late message from the open gap that contains its number, because this message is not lost.
    #[cold]
    fn fill(&mut self, publisher: Gid, number: u64, distributions: &mut Distributions) {
        let has_number = |open: &&mut OpenGap| {
            open.publisher == publisher && (1..=open.length).contains(&steps(number, open.number))
        };
        let is_taken_back = self.sequences.is_taken_back(number);
        // The latest gap is checked first, because a publisher can have several gaps with the same numbers after a
        // pause.
        let (later, earlier) = self.open.split_at_mut(self.next);
        let open = later.iter_mut().rev().chain(earlier.iter_mut().rev()).flatten().find(has_number);
        if let Some(open) = open.filter(|_| is_taken_back) {
            open.missing -= 1;
            self.add_gap(0, distributions);
        }
    }

    /// Adds an open gap to `gaps`, with the number of messages that are still missing.
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

    pub(super) fn close_all(&mut self, distributions: &mut Distributions) {
        (0..OpenGap::MOST).for_each(|place| self.close(place, distributions));
    }

    /// Ends a window. Returns the summary of the gaps before the window's messages. If losses are unknown, some gaps
    /// are unknown, too, so the summary has no samples.
    pub(super) fn take(&mut self) -> Summary {
        let gaps = self.gaps.take();
        let evictions = self.sequences.evictions();
        let is_complete = std::mem::replace(&mut self.evictions, evictions) == evictions;
        self.sequences.followed().filter(|_| is_complete).map_or_else(Summary::default, |_| gaps)
    }

    /// Starts the first window after the statistics were disabled and enabled again. Messages sent during that time are
    /// not lost.
    pub(super) fn restart(&mut self) {
        (self.gaps, self.open) = (SummaryCollector::default(), Default::default());
        self.evictions = self.sequences.evictions();
        self.sequences.pause();
    }

    /// Returns, for each publisher that is followed, the number of messages received and lost.
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
