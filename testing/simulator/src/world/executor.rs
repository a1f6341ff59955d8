// SPDX-License-Identifier: Apache-2.0

//! The executor: takes messages and runs callbacks, also while another thread holds the lock of a subscription.

use std::sync::Arc;

use topic_statistics_core::record::{clock::Clock, source::WindowedCollector};

use super::{
    middleware::Message,
    samples::{DelayedEnd, Running, Taken, Waiting, WaitingSample},
    state::{Event, World},
};
use crate::{
    clocks::{MS, S},
    delay::Delay,
    equal::equal,
    faults::Fault,
    oracle::{Received, Stamp},
};

impl World {
    fn take(&mut self, id: u64, message: Message) -> Result<Option<Taken>, String> {
        let received = Stamp { value: self.clocks.system(), read_at: Some(self.now), ..Stamp::NONE };
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return Ok(None) };
        let recorder = &subscription.recorder;
        let is_filtered = self.now < subscription.filtered_until;
        let info = self.middleware.info(&message, received, is_filtered);
        if let Some(fault) = self.middleware.fault {
            self.tally.inject(fault);
        }
        let taken = recorder
            .epoch()
            .map(|epoch| recorder.received_message(epoch, message.header.value, info, || message.size()));
        let (epoch, steps) = (subscription.oracle.epoch(), subscription.oracle.steps);
        subscription.has_taken |= taken.is_some();
        let recorder = Arc::clone(recorder);
        equal("whether a subscription is enabled", taken.is_some(), epoch.is_some())?;
        Ok(Some(Taken {
            subscription: id,
            recorder,
            taken,
            epoch,
            steps,
            at: self.now,
            message,
            received,
            is_filtered,
        }))
    }

    pub fn arrive(&mut self, id: u64, message: Message) -> Result<(), String> {
        let Some(taken) = self.take(id, message)? else { return Ok(()) };
        let start = self.executor.max(self.now) + self.random.i64(1_000..50_000);
        let mut takes = self.random.i64(1_000..200_000);
        if self.happens(Fault::SlowCallback, 100) {
            takes += self.random.i64(50 * MS..700 * MS);
        }
        self.executor = start + takes;
        self.at(start, Event::Start { taken: Box::new(taken), takes });
        Ok(())
    }

    pub fn start(&mut self, taken: Taken, takes: i64) -> Result<(), String> {
        let (id, epoch, started) = (taken.subscription, taken.epoch, self.now);
        if !self.subscriptions.contains_key(&id) {
            return self.start_of_dropped(&taken);
        }
        self.tally.messages += 1;
        // Other threads may record messages while this thread is delayed and holds the lock.
        let is_delayed = taken.taken.is_some() && self.happens(Fault::DelayedMessage, 300);
        let waiting = if is_delayed { self.waiting(id)? } else { vec![] };
        let steps: Vec<_> = waiting.iter().flat_map(Waiting::steps).collect();
        let clocks = Arc::clone(&self.clocks);
        // This thread reads the clock before or after the other threads record their messages. If it reads the clock
        // after them, their messages are earlier than its message, but are recorded later.
        let last = steps.last().map_or(0, |(time, _)| *time);
        let reads_at =
            started + if self.plan.has(Fault::Unordered) && self.random.bool() { last + 1_000 } else { 0 };
        let running = taken.taken.and_then(|message| {
            taken.recorder.record(&message, || {
                for (time, step) in steps {
                    clocks.set_monotonic(started + time);
                    step(started + time);
                }
                reads_at
            })
        });
        let is_overtaken = reads_at > started + last && !waiting.is_empty();
        self.receive(&taken, reads_at);
        for sample in WaitingSample::list(&waiting, started) {
            self.pass_waiting(&sample);
            self.tally.inject_times(Fault::Unordered, u64::from(is_overtaken));
        }
        let started = reads_at;
        clocks.set_monotonic(clocks.monotonic().max(started + 1)); // so that no two callbacks start at the same time
        self.pass();
        if self.happens(Fault::Panic, 50) {
            return Ok(()); // after a panic, the end of the callback is never recorded
        }
        if self.happens(Fault::DropInCallback, 2000) {
            match self.random.bool() {
                true => self.drop_subscription(id),
                false => self.drop_any(),
            }
        }
        let recorder = taken.recorder;
        let running = Running { subscription: id, recorder, running, epoch, started };
        self.after(takes, Event::End(running));
        Ok(())
    }

    /// Starts the callback of a dropped subscription, and checks that nothing is recorded.
    fn start_of_dropped(&self, taken: &Taken) -> Result<(), String> {
        let before = taken.recorder.totals();
        if let Some(message) = &taken.taken {
            let _running = taken.recorder.record(message, || self.now);
        }
        equal("totals of a dropped subscription", taken.recorder.totals(), before)
    }

    pub fn end(&mut self, running: Running) {
        let Running { subscription, recorder, running, epoch, started } = running;
        let Some(running) = running else { return };
        recorder.record_end(running, self.now);
        if let Some(subscription) = self.subscriptions.get_mut(&subscription) {
            subscription.oracle.end(epoch, (self.now - started) as f64 / 1e6);
        }
    }

    fn receive(&mut self, taken: &Taken, callback: i64) {
        let Taken { message, .. } = taken;
        self.note(|| {
            format!(
                "{} ns: subscription {} receives number {} of {:02x?}",
                callback - 1000 * S,
                taken.subscription,
                message.number,
                &message.publisher[..2]
            )
        });
        let if_reported = |stamp: Stamp, is_reported: bool| if is_reported { stamp } else { Stamp::NONE };
        let received = Received {
            callback,
            ros: self.clocks.ros(),
            jumps: self.jumps,
            jumped_at: self.jumped,
            taken: taken.at,
            steps: taken.steps,
            header: message.header,
            source: if_reported(message.source, self.middleware.has_source),
            received: if_reported(taken.received, self.middleware.has_reception),
            publisher: message.publisher,
            number: self.middleware.has_numbers.then_some(message.index),
            size: message.size(),
            is_filtered: taken.is_filtered,
        };
        if let Some(subscription) = self.subscriptions.get_mut(&taken.subscription) {
            subscription.oracle.receive(taken.epoch, received);
            if taken.epoch.is_some() && taken.epoch == subscription.oracle.epoch() {
                subscription.deliveries.deliver(
                    message.publisher,
                    message.index,
                    subscription.filtered_until > 0,
                );
            }
        }
    }

    pub fn pass_waiting(&mut self, sample: &WaitingSample<'_>) {
        let WaitingSample { time, taken, duration, is_lost } = sample;
        self.tally.inject(if *is_lost { Fault::Overflow } else { Fault::Queued });
        self.tally.messages += u64::from(duration.is_none());
        if !is_lost && duration.is_none() {
            return self.receive(taken, *time);
        }
        let Some(subscription) = self.subscriptions.get_mut(&taken.subscription) else { return };
        match (duration, is_lost) {
            (Some(duration), false) => subscription.oracle.end(taken.epoch, *duration),
            (Some(_), true) => subscription.oracle.miss(),
            (None, _) => subscription.oracle.count(taken.epoch),
        }
    }

    /// Returns messages whose callbacks run while another thread holds the subscription's lock, in the order of these
    /// callbacks.
    fn waiting(&mut self, id: u64) -> Result<Vec<Waiting>, String> {
        let Some(topic) = self.subscriptions.get(&id).map(|subscription| subscription.topic) else {
            return Ok(vec![]);
        };
        let publishers: Vec<usize> =
            (0..self.publishers.len()).filter(|index| self.publishers[*index].topic == topic).collect();
        let count = [1, 3, 8, 12][self.random.usize(..4)];
        let mut waiting = vec![];
        let mut time = 0;
        for _ in 0..self.random.usize(1..=count) {
            let publisher = publishers[self.random.usize(..publishers.len())];
            let message = self.message(publisher);
            for other in self.topic_subscriptions(topic).into_iter().filter(|other| *other != id) {
                self.send(other, &message);
            }
            let Some(taken) = self.take(id, message)? else { continue };
            time += self.random.i64(1_000..MS);
            let starts = time;
            let ends = self.random.bool().then(|| {
                time += self.random.i64(1_000..MS);
                time
            });
            waiting.push(Waiting { taken, starts, ends, has_ended: Arc::default() });
        }
        Ok(waiting)
    }

    pub fn delay_end(&mut self, id: u64) -> Result<(), String> {
        let waiting = self.waiting(id)?;
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return Ok(()) };
        if subscription.delayable.is_waiting() {
            return Ok(());
        }
        let last = waiting.last().map_or(0, |last| last.ends.unwrap_or(last.starts));
        let stop = self.random.i64(0..=last);
        let end = last + 5_000; // this delay makes a reading of the system clock too imprecise, so it is repeated
        let steps = waiting.iter().flat_map(Waiting::steps);
        let (before, after) = steps.partition(|(time, _)| *time < stop);
        let at = self.random.u32(1..3);
        subscription.delayable.delay_next_end(Delay { before, stop, after, end, at });
        subscription.delayed = Some(DelayedEnd { stop, waiting });
        Ok(())
    }
}
