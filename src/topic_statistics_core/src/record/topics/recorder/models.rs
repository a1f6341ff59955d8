// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::{
    model::{check, Reached, Ticks},
    record::{
        sources::periods::are_of_a_run,
        transport::{Delivery, Gid},
    },
    summary::Summary,
    sync::thread,
};

const TRANSPORT: Transport =
    Transport { name: "unknown", received: ReceivedTimestamp::Unknown, has_sequence_numbers: true };

/// A recorder and a clock that all threads read.
struct Rig {
    recorder: Recorder,
    clock: Ticks,
}

#[derive(Clone, Copy, Debug)]
struct Recorded {
    /// The time at which the callback of the message started.
    callback: i64,
    /// The reading of the clock directly after the message was recorded.
    returned: i64,
    /// Whether the thread got the lock when it recorded the message, so that the message did not go to the queue.
    is_direct: bool,
}

/// The figures that a window reports about its messages, and the window's stop.
#[derive(Debug)]
struct Ended {
    stop: i64,
    count: u64,
    is_count_known: bool,
    /// The number of measured messages.
    measured: u64,
    has_figures: bool,
    periods: Summary,
}

impl Rig {
    fn new() -> Arc<Self> {
        let clock = Ticks::new();
        let metrics = [Metric::MessageAge, Metric::MessagePeriod, Metric::TimeSinceLastMessage];
        let recorder = Recorder::new("/imu", RecorderOptions::new().metrics(metrics), None, &clock);
        recorder.enable(&clock);
        Arc::new(Self { recorder, clock })
    }

    /// Takes a message. Returns `None` while the statistics are disabled.
    fn take(&self) -> Option<ReceivedMessage> {
        let delivery =
            Delivery { transport: &TRANSPORT, source: 0, received: 0, publisher: Gid::default(), number: 1 };
        Some(self.recorder.received_message(self.recorder.epoch()?, Ticks::EPOCH, delivery, || 0))
    }

    fn receive(&self) -> Recorded {
        let message = self.take().expect("enabled");
        let times_taken = self.recorder.collectors.times_taken();
        let callback = self.recorder.record_start(&message, || self.clock.callback());
        let is_direct = self.recorder.collectors.times_taken() > times_taken;
        Recorded { callback, returned: self.clock.later(), is_direct }
    }

    /// Ends a window that began at the end of the previous window.
    fn end(&self) -> Option<Ended> {
        let finished = self.recorder.end_window(&self.clock)?;
        let window = finished.statistics;
        let samples = |metric| window.get(metric).map_or(0, |summary| summary.sample_count);
        let measured = samples(Metric::MessageAge);
        Some(Ended {
            stop: window.window.stop.as_nanoseconds() - finished.clock_offset,
            count: window.count,
            is_count_known: window.is_count_known,
            measured,
            has_figures: measured + samples(Metric::TimeSinceLastMessage) > 0,
            periods: window.get(Metric::MessagePeriod).copied().unwrap_or_default(),
        })
    }
}

/// Asserts the invariants of two consecutive windows and their messages:
///
/// - Each message is counted exactly once.
/// - A known count is the number of messages whose callback started in the window. A window with figures has measured
///   exactly these messages. There is one exception: a thread found the lock held, read the clock, and was preempted
///   until the window had ended. Then the message of this thread is in the next window.
fn assert_windows(messages: &[Recorded], first: &Ended, second: &Ended) {
    let all = || format!("{messages:?} {first:?} {second:?}");
    let count =
        |is_one: &dyn Fn(&Recorded) -> bool| messages.iter().filter(|message| is_one(message)).count() as u64;
    assert_eq!(first.count + second.count, messages.len() as u64, "{}", all());
    let is_after = |message: &Recorded| message.callback >= first.stop;
    let is_preempted =
        |message: &Recorded| !is_after(message) && !message.is_direct && message.returned >= first.stop;
    let (after, preempted) = (count(&is_after), count(&is_preempted));
    let before = messages.len() as u64 - after;
    let counts = [(first, before - preempted..=before), (second, after..=after + preempted)];
    let mut callbacks: Vec<i64> = messages.iter().map(|message| message.callback).collect();
    callbacks.sort_unstable();
    for (window, of_its_time) in counts {
        if window.is_count_known {
            assert!(of_its_time.contains(&window.count), "{}", all());
        }
        assert!(are_of_a_run(&window.periods, &callbacks), "{}", all());
        if window.has_figures {
            assert!(window.is_count_known && window.measured == window.count, "{}", all());
        }
    }
}

/// Two threads record messages while a window ends. A window must have no samples of the period if its messages were
/// recorded out of order, or if an earlier message is not recorded yet.
#[test]
fn a_message_has_a_period_since_the_one_before_it() {
    let [has_none, has_all] = [(); 2].map(|()| Reached::default());
    let reached = [has_none.clone(), has_all.clone()];
    check(2, move || {
        let rig = Rig::new();
        let threads = [1, 2].map(|count| {
            let rig = Arc::clone(&rig);
            thread::spawn(move || (0..count).map(|_| rig.receive()).collect::<Vec<_>>())
        });
        let first = rig.end().unwrap();
        let messages: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        let second = rig.end().unwrap();
        assert_windows(&messages, &first, &second);
        let windows = [&first, &second];
        reached[0]
            .set_if(windows.iter().any(|window| window.measured > 1 && window.periods.sample_count == 0));
        reached[1].set_if(second.measured == 3 && second.periods.sample_count == 2);
    });
    [has_none, has_all].iter().for_each(Reached::assert);
}

/// Two threads record one message each while a window ends.
#[test]
fn a_message_is_in_the_window_of_its_time() {
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

/// A thread records more messages than fit into the queue while a window ends. If messages were counted but not
/// measured while the window was being ended, they may belong to either window. Then neither window may have figures.
#[test]
fn an_overflow_while_a_window_ends_leaves_no_wrong_figure() {
    let cases: [Reached; 4] = Default::default();
    let reached = cases.clone();
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
            let have_both = first.count > 0 && second.count > 0;
            reached.set_if(have_both && [first.has_figures, second.has_figures] == case);
        }
        // The overflow of the queue must have no effect on a third window.
        let callback = rig.receive();
        let third = rig.end().unwrap();
        assert_eq!((third.count, third.measured), (1, 1), "{callback:?}");
    });
    cases.iter().for_each(Reached::assert);
}

/// A message is taken and recorded while the statistics are disabled and enabled again. The message must be in the
/// window after the pause only if it was taken after the pause.
#[test]
fn a_message_of_another_epoch_is_not_recorded() {
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

/// One thread records more messages than fit into the queue, and another thread records one message, while the
/// statistics are disabled. After `disable` has returned, no message may be recorded or counted, not even a message
/// that is in the queue.
#[test]
fn nothing_is_recorded_after_the_statistics_were_disabled() {
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
