// SPDX-License-Identifier: Apache-2.0

//! The transforms on `/tf` and `/tf_static`: which publisher publishes which frame, and how the stamps compare with the
//! clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use topic_statistics_core::record::transport::Gid;
use topic_statistics_observe::format::name;

/// The stamp of a transform, in nanoseconds, and the time of its reception.
#[derive(Clone, Copy)]
pub struct Stamp {
    pub stamp: i64,
    /// The time of reception on the monotonic clock, since the program started to listen.
    pub at: Duration,
    /// The time of reception on the system clock, in nanoseconds.
    pub system: i64,
    /// The time in the last message on `/clock`, in nanoseconds. `None` if no message was received on `/clock`.
    pub clock: Option<i64>,
}

/// The transforms of all frames. The number of frames is limited.
#[derive(Default)]
pub struct Transforms {
    frames: BTreeMap<Frame, Vec<Authority>>,
    /// Whether a frame, or a publisher of a frame, was not stored because a table was full.
    pub is_full: bool,
}

/// The namespace of the transform topics, and the name of a frame in this namespace.
type Frame = (String, String);

#[derive(Default)]
struct Authority {
    topic: String,
    publisher: Gid,
    parent: String,
    count: u64,
    first: Duration,
    last: Duration,
    stamp: i64,
    /// How often a stamp was earlier than the previous stamp.
    backward: u64,
    /// The smallest difference between a stamp and its ROS time of reception, in ns. Positive: stamp in the future.
    nearest: i64,
    /// Whether at least one stamp of this authority was close to the system time at its reception.
    is_system: bool,
}

#[derive(Debug, PartialEq)]
pub struct Fault {
    pub topic: String,
    /// The publishers, as topic and GID: one, or two that publish the same frame.
    pub publishers: Vec<(String, Gid)>,
    /// The end of a sentence that describes the fault. The sentence begins with the names of the nodes.
    pub text: String,
}

const S: i64 = 1_000_000_000;

impl Transforms {
    const MAX_FRAMES: usize = 4096;
    const MAX_AUTHORITIES: usize = 8;
    /// How far a stamp may be in the future, in nanoseconds: AMCL stamps 1 s ahead by default (`transform_tolerance`).
    const AHEAD: i64 = 2 * S;
    /// How old a stamp may be, in nanoseconds: tf2 keeps transforms for 10 s.
    const BEHIND: i64 = 10 * S;
    /// If a stamp differs from the system clock by less than this, in nanoseconds, the stamp counts as a time of the
    /// system clock.
    const CLOSE: i64 = 60 * S;
    /// The shortest silence of a frame that is reported as a fault.
    const SILENCE: Duration = Duration::from_secs(2);

    /// Accepts a transform of `publisher` on `topic`, such as `/tf` or `/robot/tf_static`.
    pub fn add(&mut self, topic: &str, frame: &str, parent: &str, publisher: Gid, stamp: Stamp) {
        let Stamp { stamp, at, system, clock } = stamp;
        let namespace = topic.rsplit_once('/').map_or("", |(namespace, _)| namespace).to_owned();
        let key = (namespace, frame.trim_start_matches('/').to_owned());
        if self.frames.len() >= Self::MAX_FRAMES && !self.frames.contains_key(&key) {
            self.is_full = true;
            return;
        }
        let authorities = self.frames.entry(key).or_default();
        let nearest = stamp.saturating_sub(clock.unwrap_or(system));
        let is_same = |known: &Authority| known.publisher == publisher && known.topic == topic;
        let at_index = authorities.iter().position(is_same).unwrap_or(authorities.len());
        if at_index >= Self::MAX_AUTHORITIES {
            self.is_full = true;
            return;
        }
        if at_index == authorities.len() {
            let (topic, first) = (topic.to_owned(), at);
            authorities.push(Authority { topic, publisher, first, stamp, nearest, ..Authority::default() });
        }
        let authority = &mut authorities[at_index];
        authority.count += 1;
        authority.backward += u64::from(stamp < authority.stamp);
        (authority.last, authority.stamp, authority.parent) = (at, stamp, parent.to_owned());
        if nearest.unsigned_abs() < authority.nearest.unsigned_abs() {
            authority.nearest = nearest;
        }
        authority.is_system |= stamp.abs_diff(system) < Self::CLOSE as u64;
    }

    /// Returns the roots of the trees of a namespace: the parent frames that have no parent themselves.
    pub fn roots(&self, namespace: &str) -> BTreeSet<&str> {
        let own = || self.frames.iter().filter(move |((of, _), _)| of == namespace);
        let children: BTreeSet<&str> = own().map(|((_, frame), _)| &**frame).collect();
        let parents = own().flat_map(|(_, authorities)| authorities);
        let parents = parents.map(|authority| authority.parent.trim_start_matches('/'));
        parents.filter(|parent| !children.contains(parent)).collect()
    }

    /// Returns all faults at the time `end`. `has_clock` is whether `/clock` was published.
    pub fn faults(&self, end: Duration, has_clock: bool) -> Vec<Fault> {
        let mut faults = vec![];
        for ((_, frame), authorities) in &self.frames {
            let mut add = |of: &[&Authority], text: String| {
                let publishers = of.iter().map(|one| (one.topic.clone(), one.publisher)).collect();
                faults.push(Fault { topic: of[0].topic.clone(), publishers, text });
            };
            let (shown, rivals) = (name(frame), rivals(authorities));
            if let Some(rivals @ [first, second]) = rivals {
                let parents = rivals.map(|rival| name(&rival.parent)).join(" and below ");
                let is_same = first.parent == second.parent;
                let below = if is_same { String::new() } else { format!(", below {parents}") };
                let text = format!(
                    "both publish the transform of the frame {shown}{below}, so it jumps between two values; let only \
                     one of them publish it"
                );
                add(&rivals, text);
            }
            for authority in authorities.iter().filter(|authority| !authority.is_static()) {
                if let Some(text) = authority.fault(end, has_clock, rivals.is_some()) {
                    add(&[authority], format!("publishes the transform of the frame {shown} {text}"));
                }
            }
        }
        faults
    }
}

/// Returns two publishers, if any, that published the transform of one frame at the same time. Two static publishers
/// with the same parent are no fault, because two nodes may read the same robot description.
fn rivals(authorities: &[Authority]) -> Option<[&Authority; 2]> {
    let pairs = authorities.iter().enumerate();
    let mut pairs =
        pairs.flat_map(|(at, first)| authorities[at + 1..].iter().map(move |second| [first, second]));
    pairs.find(|[first, second]| {
        let is_twice = |authority: &Authority| authority.is_static() || authority.count >= 2;
        let overlaps = first.first <= second.last && second.first <= first.last;
        match [first, second].map(|authority| authority.is_static()) {
            [true, true] => first.publisher != second.publisher && first.parent != second.parent,
            [false, false] => {
                first.publisher != second.publisher && overlaps && is_twice(first) && is_twice(second)
            }
            _ => is_twice(first) && is_twice(second),
        }
    })
}

impl Authority {
    fn is_static(&self) -> bool {
        self.topic.ends_with("/tf_static")
    }

    /// Returns the fault of a transform that is not static: a fault in its stamps, or its silence.
    fn fault(&self, end: Duration, has_clock: bool, has_rival: bool) -> Option<String> {
        let seconds = |nanoseconds: i64| format!("{:.1} s", nanoseconds as f64 / S as f64);
        let silence = end.saturating_sub(self.last);
        let period = (self.last - self.first) / u32::try_from(self.count.max(2) - 1).unwrap_or(u32::MAX);
        let nearest = self.nearest;
        if has_clock && self.is_system && !(-Transforms::BEHIND..=Transforms::AHEAD).contains(&nearest) {
            return Some(
                "with stamps of the system clock, although /clock is published; set its use_sim_time"
                    .to_owned(),
            );
        }
        if nearest > Transforms::AHEAD {
            return Some(format!(
                "stamped {} in the future; compare the clocks of the two hosts, and its transform_tolerance",
                seconds(nearest)
            ));
        }
        if nearest < -Transforms::BEHIND {
            let remedy = if has_clock { "" } else { ", or play /clock if they are recorded or simulated" };
            return Some(format!(
                "stamped {} in the past, and tf2 keeps 10 s; compare the clocks of the two hosts{remedy}",
                seconds(nearest.saturating_neg())
            ));
        }
        if self.backward >= 2 && !has_rival {
            return Some(format!("with stamps that go back, {} times of {}", self.backward, self.count));
        }
        (self.count >= 5 && silence > Transforms::SILENCE.max(10 * period))
            .then(|| format!("no more, for {:.1} s; see what its node waits for", silence.as_secs_f64()))
    }
}
