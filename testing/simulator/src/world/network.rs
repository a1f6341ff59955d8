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
        let is_remote = self.plan.has(Fault::RemoteClock) && self.random.bool();
        if is_remote {
            self.tally.inject(Fault::RemoteClock);
        }
        let remote =
            is_remote.then(|| (self.random.i64(-20 * MS..3600 * S), self.random.i64(-500_000..500_000)));
        let first = if self.plan.has(Fault::Wraparound) && self.random.bool() {
            self.tally.inject(Fault::Wraparound);
            u64::MAX - self.random.u64(1..50)
        } else {
            1
        };
        let is_stamped = !(self.plan.has(Fault::Unstamped) && self.random.bool());
        let interval = self.period / self.plan.rate;
        let interval = self.random.i64(interval / 2..=interval * 2);
        let late = if self.plan.has(Fault::LateJoin) && self.random.bool() {
            self.tally.inject(Fault::LateJoin);
            self.random.i64(0..5 * self.period)
        } else {
            self.random.i64(0..100 * MS)
        };
        let index = self.publishers.len();
        self.publishers.push(Publisher {
            topic,
            gid,
            first,
            sent: 0,
            remote,
            is_stamped,
            stuck: None,
            interval,
        });
        self.after(late, Event::Publish(index));
    }

    pub fn publish(&mut self, index: usize) {
        let burst = if self.plan.has(Fault::Burst) && self.random.u32(..50) == 0 {
            self.tally.inject(Fault::Burst);
            self.random.u32(2..30)
        } else {
            1
        };
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

    /// Returns the next message of a publisher.
    pub fn message(&mut self, index: usize) -> Message {
        let publisher = &mut self.publishers[index];
        let (index, number) = publisher.next();
        let source = match publisher.remote {
            Some((remote, drift)) => {
                let drift = (self.now - 1000 * S) / 1_000_000 * drift / 1000;
                Stamp { value: self.clocks.system() + remote + drift, read_at: None, jumps: 0 }
            }
            None => Stamp { value: self.clocks.system(), read_at: Some(self.now), jumps: 0 },
        };
        let header = match (publisher.is_stamped, self.simulated.is_some()) {
            (false, _) => {
                self.tally.inject(Fault::Unstamped);
                Stamp::NONE
            }
            (true, false) => source,
            (true, true) => {
                let stamp = Stamp { value: self.clocks.ros(), read_at: Some(self.now), jumps: self.jumps };
                if self.plan.has(Fault::Stuck) && self.random.u32(..100) == 0 {
                    publisher.stuck = if publisher.stuck.is_some() { None } else { Some(stamp) };
                }
                self.tally.inject_times(Fault::Stuck, u64::from(publisher.stuck.is_some()));
                publisher.stuck.unwrap_or(stamp)
            }
        };
        Message { publisher: publisher.gid, index, number, header, source }
    }

    /// Sends a message to a subscription.
    pub fn send(&mut self, subscription: u64, message: &Message) {
        let filter = self.subscriptions.get_mut(&subscription).filter(|of| of.filtered_until == i64::MAX);
        if let Some(filter) = filter.filter(|_| self.random.u32(..3) > 0) {
            return filter.deliveries.filter_message(message.publisher, message.index);
        }
        let is_lost = self.plan.has(Fault::Loss) && self.random.u32(..20) == 0;
        self.tally.inject_times(Fault::Loss, u64::from(is_lost));
        if is_lost || self.now < self.cut_until {
            if let Some(subscription) = self.subscriptions.get_mut(&subscription) {
                subscription.deliveries.drop_message(message.publisher, message.index);
            }
            return;
        }
        let mut delay = self.random.i64(50_000..500_000);
        if self.plan.has(Fault::Delay) && self.random.u32(..20) == 0 {
            self.tally.inject(Fault::Delay);
            delay += self.random.i64(50 * MS..400 * MS);
        }
        if self.plan.has(Fault::Reorder) && self.random.u32(..20) == 0 {
            self.tally.inject(Fault::Reorder);
            // The delay stays below 10 s, the longest time that a message may be under way at a step by
            // docs/reliability.md.
            delay += self.random.i64(0..(5 * self.period / self.plan.rate).min(8 * S));
        } else if !self.plan.has(Fault::Delay) && !self.plan.has(Fault::Reorder) {
            delay = 100_000; // the same delay for all messages keeps them in order
        }
        if self.plan.has(Fault::Duplicate) && self.random.u32(..30) == 0 {
            self.tally.inject(Fault::Duplicate);
            let again = self.random.i64(0..50 * MS);
            self.after(delay + again, Event::Arrive { subscription, message: message.clone() });
        }
        self.after(delay, Event::Arrive { subscription, message: message.clone() });
    }
}
