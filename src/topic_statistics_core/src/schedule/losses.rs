// SPDX-License-Identifier: Apache-2.0

//! Events that are published when subscriptions of the node lose messages.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use super::outbox::{Failures, PublishError};
use crate::record::source::{Source, WindowedCollector};

/// A publisher of loss events.
pub trait PublishLosses: Send + Sync {
    /// Publishes the messages that subscriptions of a node have lost. Returns the error of the middleware if this
    /// fails.
    fn publish(&self, lost: &MessagesLost) -> Result<(), PublishError>;
}

/// The messages that subscriptions of a node have lost since the previous event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessagesLost {
    /// The fully qualified name of the node.
    pub node_name: String,
    /// The topics with losses, each with the number of messages lost. There is at least one topic.
    pub topics: Vec<(String, u64)>,
}

/// The losses of a node's subscriptions, and how many of these losses were published.
pub struct LossEvents {
    node_name: String,
    /// The shortest time between two events; `None` if events are disabled.
    interval: Option<Duration>,
    /// The next event is not published before this time; `None` before the first subscription.
    not_before: Option<Instant>,
    /// The publisher of the events; `None` before a subscription measures losses.
    publisher: Option<Arc<dyn PublishLosses>>,
    subscriptions: Vec<Subscription>,
    /// The unpublished losses of ended subscriptions, by topic.
    ended: BTreeMap<String, u64>,
}

struct Subscription {
    topic: String,
    collector: Arc<dyn WindowedCollector>,
    source: Weak<Source>,
    published: u64,
}

impl Subscription {
    /// Returns the losses that were not published yet, and counts them as published.
    fn take(&mut self) -> u64 {
        let lost = self.collector.totals().and_then(|totals| totals.lost).unwrap_or(0);
        // A message that arrives late reduces the losses. Losses that were already published cannot be taken back.
        let new = lost.saturating_sub(self.published);
        self.published += new;
        new
    }
}

/// A loss event, and the publisher of the event.
pub struct Event {
    lost: MessagesLost,
    publisher: Arc<dyn PublishLosses>,
}

impl Event {
    /// Publishes the event.
    pub fn publish(&self, failures: &mut Failures) {
        let Self { publisher, lost } = self;
        // A failed publication is repeated once, like the publication of a window's message.
        if let Err(error) = publisher.publish(lost).or_else(|_| publisher.publish(lost)) {
            failures.add(|| format!("an event on {error}"));
        }
    }
}

impl LossEvents {
    /// If the unpublished losses of ended subscriptions are on this number of topics, an event is due at once.
    const ENDED: usize = 1000;

    /// Creates the loss events of the node `node_name`. At most `max_rate` events are published per second; 0 disables
    /// the events.
    pub fn new(node_name: String, max_rate: f64) -> Self {
        Self {
            node_name,
            interval: (max_rate > 0.0).then(|| Duration::from_secs_f64(1.0 / max_rate)),
            not_before: None,
            publisher: None,
            subscriptions: vec![],
            ended: BTreeMap::new(),
        }
    }

    /// Returns whether events are enabled and still need a publisher.
    pub fn needs_publisher(&self) -> bool {
        self.interval.is_some() && self.publisher.is_none()
    }

    /// From now on, publishes the losses of this subscription as events.
    pub fn add(&mut self, source: &Arc<Source>, publisher: Option<Arc<dyn PublishLosses>>, now: Instant) {
        if self.publisher.is_none() {
            self.publisher = publisher;
        }
        self.collect_ended(now);
        if let (Some(topic), Some(_)) = (source.topic(), &self.publisher) {
            self.subscriptions.push(Subscription {
                topic: topic.to_owned(),
                collector: Arc::clone(&source.collector),
                source: Arc::downgrade(source),
                published: 0,
            });
            self.not_before.get_or_insert(now);
        }
    }

    /// Removes the subscriptions that have ended, and keeps only their losses.
    fn collect_ended(&mut self, now: Instant) {
        self.subscriptions.retain_mut(|subscription| {
            // The source is checked before its losses are read: after the end of a source, there are no further losses
            // that this reading could miss.
            let lives = subscription.source.strong_count() > 0;
            if !lives {
                let lost = subscription.take();
                if lost > 0 {
                    let sum = self.ended.entry(std::mem::take(&mut subscription.topic)).or_default();
                    *sum = sum.saturating_add(lost);
                }
            }
            lives
        });
        if self.ended.len() >= Self::ENDED {
            self.not_before = Some(now); // an event is due now, even if this is more often than the maximum rate
        }
    }

    /// Returns the time of the next check for losses; `None` if there are no subscriptions and no unpublished losses of
    /// ended subscriptions.
    pub fn wake(&self) -> Option<Instant> {
        self.not_before.filter(|_| !self.subscriptions.is_empty() || !self.ended.is_empty())
    }

    /// Returns the event that is due; `None` if no event is due, or if there are no losses since the last event.
    pub fn next(&mut self, now: Instant) -> Option<Event> {
        if self.wake()? > now {
            return None;
        }
        self.not_before = Some(now + self.interval?);
        self.remaining(now)
    }

    /// Returns an event with all losses that were not published yet, even if the next event is not due yet.
    pub fn remaining(&mut self, now: Instant) -> Option<Event> {
        let publisher = Arc::clone(self.publisher.as_ref()?);
        self.collect_ended(now);
        let ended = std::mem::take(&mut self.ended).into_iter();
        let live = self.subscriptions.iter_mut().filter_map(|subscription| {
            let lost = subscription.take();
            (lost > 0).then(|| (subscription.topic.clone(), lost))
        });
        let topics: Vec<_> = ended.chain(live).collect();
        if topics.is_empty() {
            return None;
        }
        let lost = MessagesLost { node_name: self.node_name.clone(), topics };
        Some(Event { lost, publisher })
    }
}

opaque_debug!(LossEvents, Event);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::{
        metric::Metric,
        record::{clock::Clock, source::FinishedWindow},
        source_kind::SourceKind,
        totals::Totals,
    };

    /// The collector of a test's subscription. The number is how many messages the subscription has lost.
    struct Lossy(AtomicU64);

    impl WindowedCollector for Lossy {
        fn enable(&self, _: &dyn Clock) -> bool {
            false
        }
        fn disable(&self) {}
        fn is_enabled(&self) -> bool {
            true
        }
        fn set_distributions(&self, _: bool) {}
        fn end_window(&self, _: &dyn Clock) -> Option<FinishedWindow> {
            None
        }
        fn totals(&self) -> Option<Totals> {
            Some(Totals { lost: Some(self.0.load(Ordering::Relaxed)), ..Totals::default() })
        }
        fn kind(&self) -> SourceKind {
            SourceKind::Subscription
        }
        fn measures(&self, metric: Metric) -> bool {
            metric == Metric::PublicationSeqGap
        }
    }

    struct Unread;

    impl PublishLosses for Unread {
        fn publish(&self, _: &MessagesLost) -> Result<(), PublishError> {
            Ok(())
        }
    }

    fn subscribe(events: &mut LossEvents, topic: &str, now: Instant) -> (Arc<Source>, Arc<Lossy>) {
        let lossy = Arc::new(Lossy(AtomicU64::new(0)));
        let name = format!("/node:{topic}");
        let source = Arc::new(Source::new(name, Arc::clone(&lossy) as _, Some(Box::new(topic.to_owned()))));
        events.add(&source, Some(Arc::new(Unread)), now);
        (source, lossy)
    }

    fn topics(event: Option<Event>) -> Vec<(String, u64)> {
        event.map_or(vec![], |event| event.lost.topics)
    }

    #[test]
    fn an_event_is_due_when_as_many_topics_wait_as_can() {
        assert!(
            !LossEvents::new("/node".to_owned(), 0.0).needs_publisher(),
            "a rate of 0 disables the events"
        );
        let start = Instant::now();
        let mut events = LossEvents::new("/node".to_owned(), 1e-3);
        let (_live, _) = subscribe(&mut events, "/imu", start);
        assert_eq!(topics(events.next(start)), []);
        for topic in 0..=LossEvents::ENDED {
            // The schedule notices the end of a subscription when the next subscription is created.
            let (short, lost) = subscribe(&mut events, &format!("/{topic}"), start);
            let expected = if topic == LossEvents::ENDED { topic } else { 0 };
            assert_eq!(topics(events.next(start)).len(), expected, "{topic}");
            lost.0.store(1, Ordering::Relaxed);
            drop(short);
        }
    }

    #[test]
    fn ended_subscriptions_of_a_topic_are_one_entry() {
        let start = Instant::now();
        let mut events = LossEvents::new("/node".to_owned(), 1.0);
        for count in 1..=20 {
            let (short, lost) = subscribe(&mut events, "/tf", start);
            lost.0.store(count, Ordering::Relaxed);
            drop(short);
        }
        assert_eq!(topics(events.remaining(start)), [("/tf".to_owned(), 210)]);
    }
}
