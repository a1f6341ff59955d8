// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::{
    metric::Metric,
    model::{check, Reached, Ticks},
    record::{cause::Message, clock::Clock, source::WindowedCollector},
    sync::thread,
};

const MS: i64 = 1_000_000;

/// Returns a message of the given topic that was sent `milliseconds` ago.
fn message(topic: u32, milliseconds: i64, clock: &Ticks) -> Cause {
    Cause::Message(Message { topic, source: clock.system() - milliseconds * MS, taken: 1 })
}

fn create(hops: &PublisherHops, clock: &Ticks, created: &mut Vec<(u32, Arc<Windowed<Hop>>)>) {
    hops.create(|topic| {
        let hop = Arc::new(Windowed::with_clock(Hop::default(), clock));
        hop.enable(clock);
        created.push((topic, Arc::clone(&hop)));
        Some(hop)
    });
}

/// Two threads publish in the callbacks of three topics, while marked hops are created. The publisher has room for only
/// two hops. No mark may be lost: after the last publication, the two hops that have room must exist exactly once, and
/// `is_full` must report that a third hop has no room.
#[test]
fn a_marked_hop_is_created_once_and_one_without_room_is_known() {
    let [early, late] = [(); 2].map(|()| Reached::default());
    let reached = [early.clone(), late.clone()];
    check(3, move || {
        let (clock, marks) = (Arc::new(Ticks::new()), Arc::new(Marks::default()));
        let hops = Arc::new(PublisherHops::new(Arc::clone(&marks)));
        let threads = [[1, 2], [3, 2]].map(|topics| {
            let (clock, hops) = (Arc::clone(&clock), Arc::clone(&hops));
            thread::spawn(move || {
                topics.iter().for_each(|topic| hops.record(message(*topic, 10, &clock), clock.callback()));
            })
        });
        let mut created = vec![];
        let mut create_marked = || {
            let is_marked = marks.take();
            if is_marked {
                create(&hops, &clock, &mut created);
            }
            is_marked
        };
        let is_early = create_marked();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let is_late = create_marked();
        let mut topics: Vec<u32> = created.iter().map(|(topic, _)| *topic).collect();
        topics.sort_unstable();
        assert!([[1, 2], [1, 3], [2, 3]].iter().any(|two| topics == two), "{topics:?}");
        assert!(hops.is_full());
        reached[0].set_if(is_early && !is_late);
        reached[1].set_if(is_early && is_late);
    });
    [early, late].iter().for_each(Reached::assert);
}

/// A thread publishes while the hop is created and a window ends. Each publication must be in exactly one window,
/// unless it was made before the hop was created. No window may have both the sample before the ambiguous publication
/// and the sample after it.
#[test]
fn a_window_with_an_ambiguous_publication_is_unknown() {
    let outcomes: [Reached; 4] = Default::default();
    let reached = outcomes.clone();
    check(3, move || {
        let (clock, marks) = (Arc::new(Ticks::new()), Arc::new(Marks::default()));
        let hops = Arc::new(PublisherHops::new(Arc::clone(&marks)));
        hops.record(message(1, 10, &clock), clock.callback());
        let publishing = {
            let (clock, hops) = (Arc::clone(&clock), Arc::clone(&hops));
            thread::spawn(move || {
                for cause in [message(1, 10, &clock), Cause::Ambiguous, message(1, 30, &clock)] {
                    hops.record(cause, clock.callback());
                }
            })
        };
        let mut created = vec![];
        assert!(marks.take());
        create(&hops, &clock, &mut created);
        let (_, hop) = &created[0];
        let end = || {
            let window = hop.end_window(&*clock).unwrap().statistics;
            let cost = *window.get(Metric::InputToOutput).unwrap();
            assert_eq!((cost.sample_count == 0, cost.sample_count), (cost.average.is_nan(), window.count));
            (cost.sample_count > 0).then(|| (cost.sample_count, cost.average.round() as u64))
        };
        let first = end();
        publishing.join().unwrap();
        let second = end();
        let outcome = match (first, second) {
            (None, None) => 0,
            (Some((1, 10)), None) => 1,
            (None, Some((1, 30))) => 2,
            // if the hop was created after the ambiguous publication
            (Some((1, 30)), None) => 3,
            other => panic!("{other:?}"),
        };
        reached[outcome].set_if(true);
    });
    outcomes.iter().for_each(Reached::assert);
}
