// SPDX-License-Identifier: Apache-2.0

//! Reads the bytes as a file of a bag.

use std::{collections::HashMap, fs, ops::ControlFlow};

use topic_statistics_bag::{Bag, BagClock, BagTime, ReadOptions, TopicWindow, Visitor};
use topic_statistics_core::Timestamp;

use crate::check::{has_no_infinity, is_no_infinity};

/// The length of a window, the default of [`ReadOptions`], in nanoseconds.
const PERIOD: i64 = 1_000_000_000;
/// The number of windows of a silence that are not longer than `PERIOD`.
const ORDINARY_SILENT: u64 = 1000;

#[derive(Default)]
struct Check {
    counts: HashMap<String, u64>,
    last: i64,
    /// Whether a topic has a message in the window that ended last.
    has_messages: bool,
    /// The number of windows without a message that ended after a message, and before the window that ended last.
    silent: u64,
}

impl Visitor for Check {
    fn window(&mut self, window: &TopicWindow<'_>) -> ControlFlow<()> {
        let name = window.topic.name();
        let statistics = &window.statistics;
        let stop = statistics.window.stop.as_nanoseconds();
        assert!(stop >= self.last && statistics.window.start.as_nanoseconds() <= stop, "{statistics:?}");
        if stop > self.last {
            self.silent = if self.has_messages { 0 } else { self.silent + 1 };
            self.has_messages = false;
        }
        self.last = stop;
        self.has_messages |= statistics.count > 0;
        let is_ordinary = stop.saturating_sub(statistics.window.start.as_nanoseconds()) <= PERIOD;
        assert!(is_ordinary || self.silent >= ORDINARY_SILENT, "{statistics:?} after {}", self.silent);
        for (metric, summary) in &statistics.metrics {
            has_no_infinity(summary, metric.name());
        }
        is_no_infinity(statistics.rate(), "a rate");
        let count = self.counts.entry(name.to_owned()).or_default();
        *count += statistics.count;
        let totals = window.topic.totals();
        assert_eq!(totals.received, *count, "of {name}");
        assert!(
            totals.lost.is_none() || totals.publishers.is_some(),
            "losses of unknown publishers: {totals:?}"
        );
        ControlFlow::Continue(())
    }
}

/// The reader must refuse a file, or read the file in bounded time and memory. Each window must start at the stop of
/// the previous window. The first 1000 windows of a silence must be ordinary windows. No figure may be infinite. Each message must be in one window, or be reported as unplaced.
pub fn bag(bytes: &[u8]) {
    let Some((option, file)) = bytes.split_last() else { return };
    let path = std::env::temp_dir().join(format!("fuzz_bag_{}", std::process::id()));
    fs::write(&path, file).unwrap();
    let clock = [BagClock::Log, BagClock::Publish, BagClock::Stamp][usize::from(option % 3)];
    let mut options = ReadOptions::new().clock(clock).verify(option & 4 != 0);
    if option & 8 != 0 {
        options = options.from(BagTime::At(Timestamp::from_nanoseconds(i64::from(*option) << 32)));
    }
    let mut check = Check::default();
    if let Ok(bag) = Bag::open([&path]) {
        if let Ok(statistics) = bag.read(&options, &mut check) {
            assert!(statistics.notes.len() <= 101 && statistics.topics.len() <= 2048);
            assert!(!statistics.is_interrupted);
            let mut messages = 0;
            for topic in &statistics.topics {
                let counted = check.counts.get(topic.name()).copied().unwrap_or_default();
                assert_eq!(topic.messages(), counted + topic.without_time() + topic.misplaced());
                messages += topic.messages();
            }
            assert_eq!(messages, statistics.messages);
        }
    }
    let _removed = fs::remove_file(&path);
}
