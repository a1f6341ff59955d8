// SPDX-License-Identifier: Apache-2.0

//! Reads the bytes as a file of a bag.

use std::{collections::HashMap, fs, ops::ControlFlow};

use topic_statistics_bag::{Bag, BagClock, BagTime, ReadOptions, TopicWindow, Visitor};
use topic_statistics_core::Timestamp;

use crate::check::{has_no_infinity, is_no_infinity};

#[derive(Default)]
struct Check {
    counts: HashMap<String, u64>,
    last: i64,
}

impl Visitor for Check {
    fn window(&mut self, window: &TopicWindow<'_>) -> ControlFlow<()> {
        let name = window.topic.name();
        let statistics = &window.statistics;
        let stop = statistics.window.stop.as_nanoseconds();
        assert!(stop >= self.last && statistics.window.start.as_nanoseconds() <= stop, "{statistics:?}");
        self.last = stop;
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
/// the previous window. No figure may be infinite. Each message must be in one window, or be reported as unplaced.
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
