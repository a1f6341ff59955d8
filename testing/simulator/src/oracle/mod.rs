// SPDX-License-Identifier: Apache-2.0

//! The naive oracle: it keeps every sample with data that the library does not have, and computes figures in the
//! simplest way.

mod distribution;
mod health;
mod losses;
mod other;
mod subscription;
mod times;
mod totals;

pub use distribution::{add_distributions, MergedDistributions, Naive};
pub use health::{Judgement, Limit, Wanted};
pub use losses::{add_gap, publisher_gid, Counts, Gap, Losses};
pub use other::{Kind, Other};
pub use subscription::{LostAtEnd, Settings, Subscription};
pub use times::{Bounds, WindowTimes};
pub use totals::Totals;

use topic_statistics_core::{health::Missing, record::transport::Gid, Metric, Summary, WindowStatistics};

/// A stamp, and the clock reading that it comes from. The library does not know this reading.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// The stamp in nanoseconds; 0 if there is no stamp.
    pub value: i64,
    /// The monotonic time at which the clock of this host was read for the stamp. `None` if the stamp is from another
    /// host.
    pub read_at: Option<i64>,
    /// For a stamp of simulated time: the number of jumps of simulated time before the stamp.
    pub jumps: u32,
    /// Whether the stamp is on simulated time and the node that receives the message is not, or the other way round.
    pub is_of_other_clock: bool,
}

impl Stamp {
    pub const NONE: Self = Self { value: 0, read_at: None, jumps: 0, is_of_other_clock: false };
}

/// A message whose callback has started, with everything that the oracle needs to know about it.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// The start of the callback on the monotonic clock.
    pub callback: i64,
    /// Simulated time at the start of the callback.
    pub ros: i64,
    pub jumps: u32,
    /// The monotonic time of the last jump of simulated time.
    pub jumped_at: Option<i64>,
    pub taken: i64,
    pub header: Stamp,
    /// The source timestamp, and in the next fields the received timestamp. Each is [`Stamp::NONE`] if the middleware
    /// does not report the timestamp.
    pub source: Stamp,
    pub received: Stamp,
    /// How often stamps had become doubtful, or usable again, before the message was taken.
    pub steps: u32,
    pub publisher: Gid,
    /// The number of earlier messages of the same publisher. `None` if the middleware does not number messages.
    pub number: Option<u64>,
    /// The size in bytes.
    pub size: u32,
    /// Whether a content filter may have left out messages before or after this message.
    pub is_filtered: bool,
}

/// What the oracle knows about a metric in a window.
#[derive(Clone, Debug)]
pub enum Expected {
    /// Exactly these samples.
    Samples(Vec<f64>),
    /// Some of these samples: at least this number of them. After a clock step, the library may discard a valid stamp,
    /// but must not use an invalid stamp.
    SomeOf(Vec<f64>, usize),
    /// This count, in a window of this length in nanoseconds.
    Frequency { count: u64, length: i64 },
    /// At most one sample, whose value only the kernel knows.
    Kernel,
}

#[derive(Debug, Default)]
pub struct Window {
    pub start: i64,
    pub stop: i64,
    /// Whether this is the first window since the statistics were enabled.
    pub is_first: bool,
    /// System time minus monotonic time at the stop.
    pub offset: i64,
    pub step: Option<i64>,
    /// The number of messages whose callbacks started in the window, measured or only counted. `None` if some may
    /// belong to another window.
    pub count: Option<u64>,
    /// Messages counted but not measured.
    pub unrecorded: u64,
    /// Why the last message has no age, although its type has a header; `None` if it has an age, or if a step, jump or
    /// lost sample is the reason.
    pub missing: Option<Missing>,
    /// Messages lost in the window. `None` if unknown.
    pub lost: Option<u64>,
    pub metrics: Vec<(Metric, Expected)>,
    /// Whether the metrics have distributions.
    pub has_distributions: bool,
    /// `None` unless the source is a subscription.
    pub totals: Option<Totals>,
}

impl Window {
    /// Returns a window whose figures are copied from the library's window of a subscription. It is used to check only the
    /// health after that window. `lost` is the number of messages lost in the window.
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
            missing: ours
                .unstamped
                .then_some(Missing::HeaderStamps)
                .or(ours.other_clock.then_some(Missing::OtherClock)),
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
