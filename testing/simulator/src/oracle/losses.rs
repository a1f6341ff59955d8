// SPDX-License-Identifier: Apache-2.0

//! The messages of each publisher: received and lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use topic_statistics_core::record::transport::Gid;

/// The publishers of a topic. Its numbers are counted from 0, whatever numbers the middleware gives.
#[derive(Default)]
pub struct Losses {
    publishers: BTreeMap<Gid, Publisher>,
    /// The followed publishers, with the number of their last message.
    followed: BTreeMap<Gid, u64>,
    messages: u64,
    /// How many were replaced.
    pub evictions: u64,
    has_unnumbered: bool,
    has_unmeasured: bool,
    lost: u64,
    out_of_order: u64,
    duplicates: u64,
}

/// The messages received of a publisher since its first message, or since the statistics were enabled.
struct Publisher {
    first: u64,
    latest: u64,
    missing: BTreeSet<u64>,
    is_new: bool,
    heard: Heard,
}

/// All messages received of a publisher.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    pub gid: Gid,
    pub received: u64,
    pub lost: u64,
    pub out_of_order: u64,
    pub is_numbered: bool,
    /// The last callback, on the monotonic clock.
    pub last: i64,
}

/// What a message shows of those before it.
pub enum Shown {
    Nothing,
    /// So many are missing before it; none, usually.
    Gap(Gap),
    /// It was missing.
    Found(Gid, u64),
}

/// Messages of a publisher that are missing before one that was received.
#[derive(Clone, Debug)]
pub struct Gap {
    gid: Gid,
    numbers: Range<u64>,
    pub missing: u64,
}

/// Returns the identifier of a publisher with that number.
pub fn gid_of(number: u64) -> Gid {
    let mut gid = Gid::default();
    gid[..8].copy_from_slice(&number.to_be_bytes());
    gid
}

/// Adds what a message shows to the gaps of a window. Only the last four with a missing message can still be filled.
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
    /// Publishers that are followed.
    const PUBLISHERS: usize = 256;
    /// A message may be that many numbers late; then its loss is not taken back.
    const WINDOW: u64 = 64;

    /// Returns what a message shows.
    pub fn receive(&mut self, gid: Gid, number: Option<u64>, callback: i64, is_filtered: bool) -> Shown {
        self.follow(gid);
        self.has_unnumbered |= number.is_none();
        let first = number.unwrap_or(0);
        let publisher = self.publishers.entry(gid).or_insert_with(|| Publisher {
            first,
            latest: first,
            missing: BTreeSet::new(),
            is_new: true,
            heard: Heard { gid, received: 0, lost: 0, out_of_order: 0, is_numbered: true, last: 0 },
        });
        let heard = &mut publisher.heard;
        heard.received += 1;
        heard.last = callback;
        let Some(number) = number else {
            heard.is_numbered = false;
            return Shown::Nothing;
        };
        // What is missing on either side of a message that passed a filter may be filtered.
        let is_new = std::mem::replace(&mut publisher.is_new, is_filtered);
        if is_new || is_filtered {
            (publisher.first, publisher.latest) = (number, number);
            publisher.missing.clear();
            Shown::Nothing
        } else if number > publisher.latest {
            let gap = number - publisher.latest - 1;
            self.lost += gap;
            heard.lost += gap;
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
            heard.lost -= u64::from(is_recent);
            self.out_of_order += 1;
            heard.out_of_order += 1;
            if is_recent {
                Shown::Found(gid, number)
            } else {
                Shown::Nothing
            }
        }
    }

    /// Follows a publisher in place of the one that was silent for longest, if there are too many.
    fn follow(&mut self, gid: Gid) {
        self.messages += 1;
        if self.followed.insert(gid, self.messages).is_none() && self.followed.len() > Self::PUBLISHERS {
            let silent = self.followed.iter().min_by_key(|(_, last)| **last).map(|(gid, _)| *gid);
            let silent = silent.expect("a publisher");
            self.followed.remove(&silent);
            // Its next message is the first one.
            self.publishers.entry(silent).and_modify(|publisher| publisher.is_new = true);
            self.evictions += 1;
        }
    }

    /// Accepts messages that were counted but not measured.
    pub fn miss(&mut self) {
        self.has_unmeasured = true;
    }

    /// Messages sent from now on until the next received one of each publisher do not count as lost.
    pub fn pause(&mut self) {
        self.publishers.values_mut().for_each(|publisher| publisher.is_new = true);
    }

    /// Returns whether losses are known.
    pub fn are_known(&self) -> bool {
        !self.has_unnumbered && self.publishers_are_known() && !self.publishers.is_empty()
    }

    fn publishers_are_known(&self) -> bool {
        !self.has_evicted() && !self.has_unmeasured
    }

    pub fn has_evicted(&self) -> bool {
        self.evictions > 0
    }

    /// Returns whether the losses of the publishers that are followed are known.
    pub fn followed_are_known(&self) -> bool {
        !self.has_unnumbered && !self.has_unmeasured && !self.publishers.is_empty()
    }

    /// Returns the losses of the publishers that are followed, if they are known.
    pub fn followed_lost(&self) -> Option<u64> {
        self.followed_are_known().then_some(self.lost)
    }

    pub fn has_unnumbered(&self) -> bool {
        self.has_unnumbered
    }

    /// Returns the most losses that there can have been at any time.
    pub fn most(&self) -> u64 {
        self.lost + self.out_of_order
    }

    pub fn lost(&self) -> Option<u64> {
        self.are_known().then_some(self.lost)
    }

    pub fn out_of_order(&self) -> Option<u64> {
        self.are_known().then_some(self.out_of_order)
    }

    pub fn duplicates(&self) -> Option<u64> {
        self.are_known().then_some(self.duplicates)
    }

    pub fn publishers(&self) -> Option<u64> {
        self.publishers_are_known().then_some(self.publishers.len() as u64)
    }

    /// Returns the messages received of each publisher, by its identifier; None if unknown.
    pub fn heard(&self) -> Option<impl Iterator<Item = Heard> + '_> {
        (!self.has_evicted()).then(|| {
            self.publishers.values().map(|publisher| Heard {
                is_numbered: publisher.heard.is_numbered && !self.has_unmeasured,
                ..publisher.heard
            })
        })
    }
}
