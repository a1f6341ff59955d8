// SPDX-License-Identifier: Apache-2.0

use std::time::UNIX_EPOCH;

use rclrs::PublisherGid;

use super::*;
use crate::{
    model::{check, Reached, Ticks},
    sync::thread,
};

/// A recorder on a clock that all threads read.
struct Rig {
    recorder: Recorder,
    clock: Ticks,
}

/// A message that was recorded.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    /// When its callback started.
    callback: i64,
    /// The time after it was recorded.
    returned: i64,
    /// Whether the thread got the lock for it.
    is_direct: bool,
}

/// What a window reports of its messages, and when it ended.
#[derive(Debug)]
struct Ended {
    stop: i64,
    count: u64,
    /// How many of them were measured.
    measured: u64,
    has_figures: bool,
}

impl Rig {
    fn new() -> Arc<Self> {
        let clock = Ticks::new();
        let metrics = [Metric::MessageAge, Metric::TimeSinceLastMessage];
        let recorder = Recorder::new("/imu", &TopicStatisticsOptions::new().metrics(metrics), None, &clock);
        recorder.enable(&clock);
        Arc::new(Self { recorder, clock })
    }

    /// Takes a message; None while the statistics are disabled.
    fn take(&self) -> Option<ReceivedMessage> {
        let info = MessageInfo {
            source_timestamp: Some(UNIX_EPOCH),
            received_timestamp: Some(UNIX_EPOCH),
            publication_sequence_number: 1,
            reception_sequence_number: u64::MAX,
            publisher_gid: PublisherGid {
                data: Default::default(),
                implementation_identifier: std::ptr::null(),
            },
        };
        Some(self.recorder.received_message(self.recorder.epoch()?, 1, &info, || 0))
    }

    /// Takes a message, starts its callback, and records it.
    fn receive(&self) -> Recorded {
        let message = self.take().expect("enabled");
        let times_taken = self.recorder.collectors.times_taken();
        let callback = self.recorder.record_start(&message, || self.clock.callback());
        let is_direct = self.recorder.collectors.times_taken() > times_taken;
        Recorded { callback, returned: self.clock.later(), is_direct }
    }

    /// Ends a window, which is to begin where the last one ended.
    fn end(&self) -> Option<Ended> {
        let finished = self.recorder.end_window(&self.clock)?;
        let window = finished.statistics;
        let samples = |metric| window.get(metric).map_or(0, |summary| summary.sample_count);
        let measured = samples(Metric::MessageAge);
        Some(Ended {
            stop: window.window.stop - finished.clock_offset,
            count: window.count,
            measured,
            has_figures: measured + samples(Metric::TimeSinceLastMessage) > 0,
        })
    }
}

/// Asserts what holds for two windows that follow each other, and for all messages that were recorded in them:
///
/// - Each message is counted once.
/// - If a window has figures, it has measured each message whose callback started in it, and no other one. An exception is a message
///   whose thread was preempted at the stop, after it had found the lock held and read the clock: it is in the next window.
fn assert_windows(messages: &[Recorded], first: &Ended, second: &Ended) {
    let all = || format!("{messages:?} {first:?} {second:?}");
    let count =
        |is_one: &dyn Fn(&Recorded) -> bool| messages.iter().filter(|message| is_one(message)).count() as u64;
    assert_eq!(first.count + second.count, messages.len() as u64, "{}", all());
    let is_after = |message: &Recorded| message.callback >= first.stop;
    let is_preempted =
        |message: &Recorded| !is_after(message) && !message.is_direct && message.returned >= first.stop;
    let (after, preempted) = (count(&is_after), count(&is_preempted));
    if first.has_figures {
        assert_eq!(first.measured, first.count, "{}", all());
        let before = messages.len() as u64 - after;
        assert!((before - preempted..=before).contains(&first.count), "{}", all());
    }
    if second.has_figures {
        assert_eq!(second.measured, second.count, "{}", all());
        assert!((after..=after + preempted).contains(&second.count), "{}", all());
    }
}

/// Two threads record a message each while a window ends.
pub fn a_message_is_in_the_window_of_its_time() {
    let [split, before, after] = [(); 3].map(|()| Reached::default());
    let reached = [split.clone(), before.clone(), after.clone()];
    check(3, move || {
        let rig = Rig::new();
        let threads = [(); 2].map(|()| {
            let rig = Arc::clone(&rig);
            thread::spawn(move || rig.receive())
        });
        let first = rig.end().unwrap();
        let messages = threads.map(|thread| thread.join().unwrap());
        let second = rig.end().unwrap();
        assert_windows(&messages, &first, &second);
        assert_eq!([first.measured, second.measured], [first.count, second.count]);
        for (reached, count) in reached.iter().zip([1, 2, 0]) {
            reached.set_if(first.count == count);
        }
    });
    [split, before, after].iter().for_each(Reached::assert);
}

/// A thread records more messages than the queue has room for while a window ends. If that is in the middle of the end, it is not
/// known to which window the messages belong that were only counted: then neither window has figures.
pub fn an_overflow_while_a_window_ends_leaves_no_wrong_figure() {
    let [neither, only_first, only_second, both] = [(); 4].map(|()| Reached::default());
    let reached = [neither.clone(), only_first.clone(), only_second.clone(), both.clone()];
    check(3, move || {
        let rig = Rig::new();
        let recording = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || [(); 4].map(|()| rig.receive()))
        };
        let first = rig.end().unwrap();
        let messages = recording.join().unwrap();
        let second = rig.end().unwrap();
        assert_windows(&messages, &first, &second);
        let cases = [[false, false], [true, false], [false, true], [true, true]];
        for (reached, case) in reached.iter().zip(cases) {
            reached.set_if(
                first.count > 0 && second.count > 0 && [first.has_figures, second.has_figures] == case,
            );
        }
        // Nothing of it is left for a third window.
        let callback = rig.receive();
        let third = rig.end().unwrap();
        assert_eq!((third.count, third.measured), (1, 1), "{callback:?}");
    });
    [neither, only_first, only_second, both].iter().for_each(Reached::assert);
}

/// A message is taken and recorded while the statistics are disabled and enabled again. It is in the window after that only if it
/// was taken after that.
pub fn a_message_of_another_epoch_is_not_recorded() {
    let [old, new] = [(); 2].map(|()| Reached::default());
    let reached = [old.clone(), new.clone()];
    check(3, move || {
        let rig = Rig::new();
        let before = rig.recorder.epoch().unwrap();
        let threads = [(); 2].map(|()| {
            let rig = Arc::clone(&rig);
            thread::spawn(move || {
                let message = rig.take()?;
                rig.recorder.record_start(&message, || rig.clock.callback());
                Some(message.epoch)
            })
        });
        rig.recorder.disable();
        assert!(rig.recorder.enable(&rig.clock));
        let epochs = threads.map(|thread| thread.join().unwrap());
        let window = rig.end().unwrap();
        let of_now = epochs.iter().flatten().filter(|epoch| **epoch != before).count() as u64;
        assert_eq!((window.count, window.measured), (of_now, of_now));
        reached[0].set_if(epochs.contains(&Some(before)));
        reached[1].set_if(of_now > 0);
    });
    [old, new].iter().for_each(Reached::assert);
}

/// A thread records more messages than the queue has room for, and another one records one, while the statistics are disabled.
/// Nothing is recorded or counted after that has returned, not even what waits in the queue.
pub fn nothing_is_recorded_after_the_statistics_were_disabled() {
    let recorded = Reached::default();
    let has_recorded = recorded.clone();
    check(2, move || {
        let rig = Rig::new();
        let threads = [3, 1].map(|messages| {
            let rig = Arc::clone(&rig);
            thread::spawn(move || {
                for message in (0..messages).map_while(|_| rig.take()) {
                    rig.recorder.record_start(&message, || rig.clock.callback());
                }
            })
        });
        rig.recorder.disable();
        let received = rig.recorder.totals().unwrap().received;
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(rig.recorder.totals().unwrap().received, received);
        assert!(rig.end().is_none() && rig.take().is_none());
        has_recorded.set_if(received > 1);
    });
    recorded.assert();
}
