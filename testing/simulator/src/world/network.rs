// SPDX-License-Identifier: Apache-2.0

//! Publishers, the middleware, and the network.

use topic_statistics_core::record::{clock::Clock, transport::Gid};

use super::{
    middleware::{Message, Publisher},
    state::{Event, World},
};
use crate::{
    clocks::{MS, S},
    faults::Fault,
    oracle::Stamp,
};

impl World {
    pub fn add_publisher(&mut self, topic: usize) {
        let mut gid = Gid::default();
        gid.iter_mut().for_each(|byte| *byte = self.random.u8(..));
        let is_remote = self.happens(Fault::RemoteClock, 2);
        let remote =
            is_remote.then(|| (self.random.i64(-20 * MS..3600 * S), self.random.i64(-500_000..500_000)));
        let wraps = self.happens(Fault::Wraparound, 2);
        let first = if wraps { u64::MAX - self.random.u64(1..50) } else { 1 };
        let is_stamped = !(self.plan.has(Fault::Unstamped) && self.random.bool());
        let has_other_clock = self.plan.has(Fault::OtherClock) && self.random.u32(..4) == 0;
        let interval = self.period / self.plan.rate;
        let interval = self.random.i64(interval / 2..=interval * 2);
        let latest = if self.happens(Fault::LateJoin, 2) { 5 * self.period } else { 100 * MS };
        let late = self.random.i64(0..latest);
        let index = self.publishers.len();
        self.publishers.push(Publisher {
            topic,
            gid,
            first,
            sent: 0,
            remote,
            is_stamped,
            has_other_clock,
            stuck: None,
            interval,
        });
        self.after(late, Event::Publish(index));
    }

    pub fn publish(&mut self, index: usize) {
        let burst = if self.happens(Fault::Burst, 50) { self.random.u32(2..30) } else { 1 };
        let topic = self.publishers[index].topic;
        for _ in 0..burst {
            let message = self.message(index);
            for subscription in self.topic_subscriptions(topic) {
                self.send(subscription, &message);
            }
        }
        let interval = self.publishers[index].interval;
        let jitter = self.random.i64(-(interval / 4)..=interval / 4);
        let crowd = if self.plan.has(Fault::Crowd) { 100 } else { 1 };
        self.after((interval + jitter) * crowd, Event::Publish(index));
    }

    pub fn topic_subscriptions(&self, topic: usize) -> Vec<u64> {
        self.subscriptions
            .values()
            .filter(|subscription| subscription.topic == topic)
            .map(|subscription| subscription.id)
            .collect()
    }

    pub fn message(&mut self, index: usize) -> Message {
        let publisher = &mut self.publishers[index];
        let (index, number) = publisher.next();
        let source = match publisher.remote {
            Some((remote, drift)) => {
                let drift = (self.now - 1000 * S) / 1_000_000 * drift / 1000;
                Stamp { value: self.clocks.system() + remote + drift, read_at: None, ..Stamp::NONE }
            }
            None => Stamp { value: self.clocks.system(), read_at: Some(self.now), ..Stamp::NONE },
        };
        let header = match (publisher.is_stamped, self.simulated.is_some()) {
            (false, _) => {
                self.tally.inject(Fault::Unstamped);
                Stamp::NONE
            }
            (true, is_simulated) if publisher.has_other_clock => {
                self.tally.inject(Fault::OtherClock);
                // Monotonic time is as early as simulated time.
                let value = if is_simulated { source.value } else { self.now };
                Stamp { value, is_of_other_clock: true, ..Stamp::NONE }
            }
            (true, false) => source,
            (true, true) => {
                let value = self.clocks.ros();
                let stamp = Stamp { value, read_at: Some(self.now), jumps: self.jumps, ..Stamp::NONE };
                if self.plan.has(Fault::Stuck) && self.random.u32(..100) == 0 {
                    publisher.stuck = if publisher.stuck.is_some() { None } else { Some(stamp) };
                }
                self.tally.inject_times(Fault::Stuck, u64::from(publisher.stuck.is_some()));
                publisher.stuck.unwrap_or(stamp)
            }
        };
        Message { publisher: publisher.gid, index, number, header, source }
    }

    pub fn send(&mut self, subscription: u64, message: &Message) {
        let filter = self.subscriptions.get_mut(&subscription).filter(|of| of.filtered_until == i64::MAX);
        if let Some(filter) = filter.filter(|_| self.random.u32(..3) > 0) {
            return filter.deliveries.filter_message(message.publisher, message.index);
        }
        if self.happens(Fault::Loss, 20) || self.now < self.cut_until {
            if let Some(subscription) = self.subscriptions.get_mut(&subscription) {
                subscription.deliveries.drop_message(message.publisher, message.index);
            }
            return;
        }
        let mut delay = self.random.i64(50_000..500_000);
        if self.happens(Fault::Delay, 20) {
            delay += self.random.i64(50 * MS..400 * MS);
        }
        if self.happens(Fault::Reorder, 20) {
            // The delay stays below 10 s, the longest time that docs/reliability.md allows for a message that is under
            // way at a step.
            delay += self.random.i64(0..(5 * self.period / self.plan.rate).min(8 * S));
        } else if !self.plan.has(Fault::Delay) && !self.plan.has(Fault::Reorder) {
            delay = 100_000; // the same delay for all messages keeps them in order
        }
        if self.happens(Fault::Duplicate, 30) {
            let again = self.random.i64(0..50 * MS);
            self.after(delay + again, Event::Arrive { subscription, message: message.clone() });
        }
        self.after(delay, Event::Arrive { subscription, message: message.clone() });
    }
}
