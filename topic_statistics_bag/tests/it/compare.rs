// SPDX-License-Identifier: Apache-2.0

//! A bag is compared with another one, or with what was kept of it.

use std::{ops::ControlFlow, time::Duration};

use topic_statistics_bag::{
    compare::{compare, Profile, Verdict},
    Bag, ReadOptions, TopicWindow, Visitor,
};

use crate::support::*;

struct Profiler(Profile);

impl Visitor for Profiler {
    fn window(&mut self, window: &TopicWindow<'_>) -> ControlFlow<()> {
        self.0.add(window);
        ControlFlow::Continue(())
    }
}

/// Reads a bag of 60 s, in which messages are delayed by `delay` on average.
fn profile(seed: u64, delay: i64) -> Profile {
    let mut chance = fastrand::Rng::with_seed(seed);
    let message = |number: i64| {
        let message = Message::at(0, number * 50 * MS + chance.i64(0..2 * delay));
        Message { publish: START + number * 50 * MS, stamp: START + number * 50 * MS - MS, ..message }
    };
    let messages: Vec<_> = (0..1200).map(message).collect();
    let file = TestFile::new(&mcap(Default::default(), &imu(), &messages));
    let mut profiler = Profiler(Profile::new(Duration::from_secs(1)));
    Bag::open([file.path]).unwrap().read(&ReadOptions::new(), &mut profiler).unwrap();
    profiler.0
}

#[test]
fn a_bag_whose_messages_are_later_is_worse_and_the_same_again_is_not() {
    let baseline = profile(1, 4 * MS);
    let kept: Profile = serde_json::from_str(&serde_json::to_string(&baseline).unwrap()).unwrap();
    assert_eq!(kept, baseline);
    let same = compare(&kept, &profile(2, 4 * MS)).unwrap();
    assert!(same.iter().all(|comparison| comparison.verdict == Verdict::CouldBeChance), "{same:#?}");
    let later = compare(&kept, &profile(3, 5 * MS)).unwrap();
    let mut worse: Vec<&str> = (later.iter())
        .filter(|comparison| comparison.verdict != Verdict::CouldBeChance)
        .inspect(|comparison| assert_eq!(comparison.verdict, Verdict::Worse, "{comparison:?}"))
        .map(|comparison| &*comparison.quantity)
        .collect();
    worse.sort_unstable();
    // There is more jitter, too.
    let expected = [
        "message_age",
        "message_age.max",
        "message_period.max",
        "source_to_receive_ms",
        "source_to_receive_ms.max",
    ];
    assert_eq!((worse, later.len()), (expected.into(), 11));
}
