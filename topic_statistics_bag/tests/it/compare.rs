// SPDX-License-Identifier: Apache-2.0

//! A bag is compared with another one, or with what was kept of it.

use std::{ops::ControlFlow, time::Duration};

use mcap::WriteOptions;
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
    let mut chance = seed;
    let mut next = |limit: i64| {
        chance = chance.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (chance >> 33) as i64 % limit
    };
    let messages: Vec<_> = (0..1200)
        .map(|number| {
            let published = number * 50 * MS;
            let message = Message::at(0, published + next(2 * delay));
            Message { publish: START + published, stamp: START + published - MS, ..message }
        })
        .collect();
    let file = TestFile::new(&mcap(WriteOptions::new(), &[Channel::new("/imu", IMU)], &messages));
    let mut profiler = Profiler(Profile::new(Duration::from_secs(1)));
    Bag::open([file.path()]).unwrap().read(&ReadOptions::new(), &mut profiler).unwrap();
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
    for comparison in &later {
        let expected = match &*comparison.quantity {
            "message_age" | "message_age.max" | "source_to_receive_ms" | "source_to_receive_ms.max" => {
                Verdict::Worse
            }
            // More jitter.
            "message_period.max" => Verdict::Worse,
            _ => Verdict::CouldBeChance,
        };
        assert_eq!(comparison.verdict, expected, "{comparison:?}");
    }
    assert_eq!(later.len(), 11, "{later:#?}");
}
