// SPDX-License-Identifier: Apache-2.0

//! The recorder of a subscription, a publisher, a stopwatch or a counter.

use std::sync::Arc;

use topic_statistics_core::{
    collector::FirstPeriod,
    record::{
        code::{Count, Durations},
        publications::Publications,
        recorder::Recorder,
        source::WindowedCollector,
        windowed::Windowed,
    },
    source_kind::SourceKind,
};

#[derive(Clone)]
pub enum Measured {
    Messages(Arc<Recorder>),
    Publisher(Arc<Windowed<Publications>>),
    Stopwatch(Arc<Windowed<Durations>>),
    Counter(Count),
}

impl Measured {
    /// Returns the recorder of a source of this kind, and its collector. `recorder` creates the recorder of a
    /// subscription.
    pub fn new(
        kind: SourceKind,
        first_period: FirstPeriod,
        recorder: impl FnOnce() -> Recorder,
    ) -> (Arc<dyn WindowedCollector>, Self) {
        match kind {
            SourceKind::Subscription => {
                let recorder = Arc::new(recorder());
                (Arc::clone(&recorder) as _, Self::Messages(recorder))
            }
            SourceKind::Publisher => {
                let publications = Arc::new(Windowed::new(Publications::new(first_period, true)));
                (Arc::clone(&publications) as _, Self::Publisher(publications))
            }
            SourceKind::Stopwatch => {
                let durations = Arc::new(Windowed::new(Durations::default()));
                (Arc::clone(&durations) as _, Self::Stopwatch(durations))
            }
            SourceKind::Counter => {
                let count = Count::default();
                (Arc::new(Windowed::new(count.clone())), Self::Counter(count))
            }
            other => unreachable!("{other}"),
        }
    }

    /// Records a publication, a duration or a count. The publication or duration ends now and has taken the time
    /// `takes`.
    pub fn record(&self, now: i64, takes: i64, size: u32, count: u64) {
        match self {
            Self::Messages(_) => unreachable!("a message has its own times"),
            Self::Publisher(publisher) => {
                let mut time = now - takes;
                let clock = || std::mem::replace(&mut time, now);
                let _published = publisher.measure(clock, || Ok::<_, ()>(()), |()| size);
            }
            Self::Stopwatch(stopwatch) => stopwatch.record(|| takes as f64 * 1e-6),
            Self::Counter(counter) => counter.add(count),
        }
    }
}
