// SPDX-License-Identifier: Apache-2.0

//! The messages received and lost of each publisher.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use topic_statistics_core::record::transport::Gid;

/// The publishers of a topic. Messages are numbered from 0, whatever sequence numbers the middleware uses.
#[derive(Default)]
pub struct Losses {
    publishers: BTreeMap<Gid, Publisher>,
    /// The followed publishers, and for each of them the value of `messages` when its last message was received.
    followed: BTreeMap<Gid, u64>,
    messages: u64,
    /// How often a followed publisher was replaced by another publisher.
    pub evictions: u64,
    pub has_unnumbered: bool,
    has_unmeasured: bool,
    lost: u64,
    out_of_order: u64,
    duplicates: u64,
}

/// The messages received from a publisher since its first message, or since the last pause.
struct Publisher {
    first: u64,
    latest: u64,
    missing: BTreeSet<u64>,
    is_new: bool,
    counts: Counts,
}

/// The counts of all messages of a publisher.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    pub gid: Gid,
    pub received: u64,
    pub lost: u64,
    pub out_of_order: u64,
    pub is_numbered: bool,
    /// The time of the last callback, on the monotonic clock.
    pub last: i64,
}

/// What a received message shows about earlier messages of its publisher.
pub enum Shown {
    Nothing,
    /// The number of messages missing immediately before this message, usually 0.
    Gap(Gap),
    /// The message with this number is late. It was counted as missing before.
    Found(Gid, u64),
}

/// The messages of a publisher that were missing immediately before a received message, and how many of them are still
/// missing.
#[derive(Clone, Debug)]
pub struct Gap {
    gid: Gid,
    numbers: Range<u64>,
    pub missing: u64,
}

/// Returns the GID of the publisher with that number.
pub fn publisher_gid(number: u64) -> Gid {
    let mut gid = Gid::default();
    gid[..8].copy_from_slice(&number.to_be_bytes());
    gid
}

/// Updates the gaps of a window after a message. A late message fills a gap only if the gap is one of the last four
/// gaps that had missing messages.
pub fn add_gap(gaps: &mut Vec<Gap>, shown: Shown) {
    match shown {
        Shown::Nothing => {}
        Shown::Gap(gap) => gaps.push(gap),
        Shown::Found(gid, number) => {
            let mut last = gaps.iter_mut().rev().filter(|gap| !gap.numbers.is_empty()).take(4);
            if let Some(gap) = last.find(|gap| gap.gid == gid && gap.numbers.contains(&number)) {
                gap.missing -= 1;
                gaps.push(Gap { gid, numbers: 0..0, missing: 0 });
            }
        }
    }
}

impl Losses {
    const PUBLISHERS: usize = 256;
    /// A late message stays counted as lost if its number is this far, or further, behind the latest number.
    const WINDOW: u64 = 64;

    /// Records a received message. Returns what this message shows about earlier messages of its publisher.
    pub fn receive(&mut self, gid: Gid, number: Option<u64>, callback: i64, is_filtered: bool) -> Shown {
        self.follow(gid);
        self.has_unnumbered |= number.is_none();
        let first = number.unwrap_or(0);
        let counts = Counts { gid, received: 0, lost: 0, out_of_order: 0, is_numbered: true, last: 0 };
        let missing = BTreeSet::new();
        let new = Publisher { first, latest: first, missing, is_new: true, counts };
        let publisher = self.publishers.entry(gid).or_insert(new);
        let counts = &mut publisher.counts;
        counts.received += 1;
        counts.last = callback;
        let Some(number) = number else {
            counts.is_numbered = false;
            return Shown::Nothing;
        };
        // If a message passed a content filter, the messages missing before or after it may have been filtered, not
        // lost.
        let is_new = std::mem::replace(&mut publisher.is_new, is_filtered);
        if is_new || is_filtered {
            (publisher.first, publisher.latest) = (number, number);
            publisher.missing.clear();
            Shown::Nothing
        } else if number > publisher.latest {
            let gap = number - publisher.latest - 1;
            self.lost += gap;
            counts.lost += gap;
            publisher.missing.extend(publisher.latest + 1..number);
            publisher.latest = number;
            Shown::Gap(Gap { gid, numbers: number - gap..number, missing: gap })
        } else {
            let is_recent = publisher.latest - number < Self::WINDOW && number >= publisher.first;
            if is_recent && !publisher.missing.remove(&number) {
                self.duplicates += 1;
                return Shown::Nothing;
            }
            if number == publisher.latest {
                self.duplicates += 1;
                return Shown::Nothing;
            }
            self.lost -= u64::from(is_recent);
            counts.lost -= u64::from(is_recent);
            self.out_of_order += 1;
            counts.out_of_order += 1;
            if is_recent {
                Shown::Found(gid, number)
            } else {
                Shown::Nothing
            }
        }
    }

    /// Follows a publisher. If there are already 256 publishers, the new publisher replaces the publisher that was
    /// silent for longest.
    fn follow(&mut self, gid: Gid) {
        self.messages += 1;
        if self.followed.insert(gid, self.messages).is_none() && self.followed.len() > Self::PUBLISHERS {
            let silent = self.followed.iter().min_by_key(|(_, last)| **last).map(|(gid, _)| *gid);
            let silent = silent.expect("a publisher");
            self.followed.remove(&silent);
            // If the replaced publisher sends again, its next message counts as its first message.
            self.publishers.entry(silent).and_modify(|publisher| publisher.is_new = true);
            self.evictions += 1;
        }
    }

    /// Notes messages that were counted but not measured.
    pub fn miss(&mut self) {
        self.has_unmeasured = true;
    }

    /// For each publisher, messages sent between now and its next received message do not count as lost.
    pub fn pause(&mut self) {
        self.publishers.values_mut().for_each(|publisher| publisher.is_new = true);
    }

    /// Returns a count over all publishers; `None` if the count is unknown.
    fn known(&self, count: u64) -> Option<u64> {
        (self.followed_are_known() && !self.has_evicted()).then_some(count)
    }

    pub fn has_evicted(&self) -> bool {
        self.evictions > 0
    }

    /// Returns whether the losses of the followed publishers are known.
    pub fn followed_are_known(&self) -> bool {
        !self.has_unnumbered && !self.has_unmeasured && !self.publishers.is_empty()
    }

    /// Returns the losses of the followed publishers; `None` if they are unknown.
    pub fn followed_lost(&self) -> Option<u64> {
        self.followed_are_known().then_some(self.lost)
    }

    /// Returns an upper bound of the losses that the library may have reported at any time so far.
    pub fn most(&self) -> u64 {
        self.lost + self.out_of_order
    }

    pub fn lost(&self) -> Option<u64> {
        self.known(self.lost)
    }

    pub fn out_of_order(&self) -> Option<u64> {
        self.known(self.out_of_order)
    }

    pub fn duplicates(&self) -> Option<u64> {
        self.known(self.duplicates)
    }

    pub fn publishers(&self) -> Option<u64> {
        (!self.has_evicted() && !self.has_unmeasured).then_some(self.publishers.len() as u64)
    }

    /// Returns the counts of each publisher, sorted by GID. `None` if unknown.
    pub fn publisher_counts(&self) -> Option<impl Iterator<Item = Counts> + '_> {
        (!self.has_evicted()).then(|| {
            self.publishers.values().map(|publisher| Counts {
                is_numbered: publisher.counts.is_numbered && !self.has_unmeasured,
                ..publisher.counts
            })
        })
    }
}
