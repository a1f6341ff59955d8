// SPDX-License-Identifier: Apache-2.0

//! The naive oracle: it keeps every sample and every truth, and computes figures from them in the simplest way.

mod distribution;
mod health;
mod losses;
mod other;
mod subscription;
mod times;
mod totals;

pub use distribution::{add_distributions, MergedDistributions, Naive};
pub use health::{Judgement, Limit, Wanted};
pub use losses::{add_gap, gid_of, Gap, Heard, Losses};
pub use other::{Kind, Other};
pub use subscription::{LostAtEnd, Settings, Subscription};
pub use times::{Bounds, WindowTimes};
pub use totals::Totals;

use topic_statistics_core::{record::transport::Gid, Metric, Summary, WindowStatistics};

/// A stamp, and the truth about it.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// In nanoseconds; 0 if there is none.
    pub value: i64,
    /// When it was read from this host's system clock or from simulated time, on the monotonic clock; None if it is
    /// another host's.
    pub read_at: Option<i64>,
    /// How often simulated time had jumped before, if it is of simulated time.
    pub jumps: u32,
}

impl Stamp {
    pub const NONE: Self = Self { value: 0, read_at: None, jumps: 0 };
}

/// A message whose callback has started, and the truth about it.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// On the monotonic clock.
    pub callback: i64,
    /// Simulated time at the callback, how often it had jumped, and when it had jumped last, on the monotonic clock.
    pub ros: i64,
    pub jumps: u32,
    pub jumped_at: Option<i64>,
    /// When it was taken, on the monotonic clock.
    pub taken: i64,
    pub header: Stamp,
    /// [`Stamp::NONE`] if the middleware does not report it; so is the next one.
    pub source: Stamp,
    pub received: Stamp,
    /// How often stamps had become doubtful, or usable again, when it was taken.
    pub steps: u32,
    pub publisher: Gid,
    /// How many messages its publisher had sent before; None if the middleware does not number messages.
    pub number: Option<u64>,
    /// In bytes.
    pub size: u32,
    /// Whether messages of its publisher may have been filtered before or after it.
    pub is_filtered: bool,
}

/// What the oracle knows about a metric in a window.
#[derive(Clone, Debug)]
pub enum Expected {
    /// These samples.
    Samples(Vec<f64>),
    /// Some of these samples, at least this number: after a step, a valid stamp may be doubtful to a subscription, but
    /// an invalid one must not be used.
    SomeOf(Vec<f64>, usize),
    /// That many in that time, in nanoseconds.
    Frequency { count: u64, length: i64 },
    /// At most one sample. Only the kernel knows the truth.
    Kernel,
}

/// The figures of a window.
#[derive(Debug, Default)]
pub struct Window {
    pub start: i64,
    pub stop: i64,
    /// Whether it is the first one since the statistics were enabled.
    pub is_first: bool,
    /// System time less monotonic time at the stop.
    pub offset: i64,
    pub step: Option<i64>,
    /// The messages whose callbacks started in it, also those that could not be measured; None if some of them may
    /// belong to another window.
    pub count: Option<u64>,
    /// Messages that were counted without being measured.
    pub unrecorded: u64,
    /// Whether the last message has no header stamp, at which ages start.
    pub is_unstamped: bool,
    /// The messages lost in it; None if unknown.
    pub lost: Option<u64>,
    pub metrics: Vec<(Metric, Expected)>,
    /// Whether there is a distribution of each metric's samples.
    pub has_distributions: bool,
    /// None unless it is a subscription's.
    pub totals: Option<Totals>,
}

impl Window {
    /// Returns a window of a subscription with the library's own figures: for the health after it, where something else
    /// compares the figures. `lost`: the messages lost in it.
    pub fn as_reported(ours: &WindowStatistics, lost: Option<u64>) -> Self {
        let start = ours.window.start.as_nanoseconds();
        let single = |(metric, summary): &(Metric, Summary)| match metric {
            Metric::MessageAge => (*metric, Expected::SomeOf(vec![], 0)),
            _ => (*metric, Expected::Samples(vec![summary.maximum; summary.sample_count.min(1) as usize])),
        };
        Self {
            start,
            stop: start + ours.length.as_nanos() as i64,
            count: ours.is_count_known.then_some(ours.count),
            unrecorded: ours.unrecorded,
            is_unstamped: ours.unstamped,
            lost: lost.filter(|_| ours.unrecorded == 0),
            metrics: ours.metrics.iter().map(single).collect(),
            has_distributions: ours.distribution(Metric::MessageAge).is_some(),
            ..Self::default()
        }
    }
}

fn milliseconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e6
}
