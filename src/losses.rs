// SPDX-License-Identifier: Apache-2.0

//! Losses announced: an event on `/events/messages_lost` when subscriptions of the node did not get messages.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use rclrs::Publisher;
use ros_env::topic_statistics_interfaces::msg::{MessagesLostEvent, MessagesLostEventTopicStat};

use crate::{
    measured::{Measured, Recording},
    outbox::Failures,
};

/// The topic of the events.
pub(crate) const TOPIC: &str = "/events/messages_lost";

/// What subscriptions lose, and what of that was announced.
pub(crate) struct LossEvents {
    node_name: String,
    /// The time from one event to the next, at least; None if there are none.
    gap: Option<Duration>,
    /// When the next event may be.
    not_before: Instant,
    /// None before there is a subscription whose losses are known.
    publisher: Option<Publisher<MessagesLostEvent>>,
    followed: Vec<Followed>,
    /// What subscriptions that have ended lost, by topic, and was not announced.
    ended: BTreeMap<String, u64>,
}

struct Followed {
    topic: String,
    recording: Arc<dyn Recording>,
    subscription: Weak<Measured>,
    announced: u64,
}

impl Followed {
    /// Returns what was lost and not announced, and takes it as announced.
    fn take(&mut self) -> u64 {
        let lost = self.recording.totals().and_then(|totals| totals.lost).unwrap_or(0);
        // A late message that takes a loss back takes none back that was announced.
        let new = lost.saturating_sub(self.announced);
        self.announced += new;
        new
    }
}

/// An event, and what publishes it.
type Event = (MessagesLostEvent, Publisher<MessagesLostEvent>);

impl LossEvents {
    /// The most topics of subscriptions that have ended whose losses wait for an event.
    const ENDED: usize = 1000;

    /// `max_rate` events a second at most; 0 is none at all.
    pub(crate) fn new(node_name: String, max_rate: f64) -> Self {
        Self {
            node_name,
            gap: (max_rate > 0.0).then(|| Duration::from_secs_f64(1.0 / max_rate)),
            not_before: Instant::now(),
            publisher: None,
            followed: vec![],
            ended: BTreeMap::new(),
        }
    }

    /// Returns whether a publisher has to be created for there to be events.
    pub(crate) fn lacks_publisher(&self) -> bool {
        self.gap.is_some() && self.publisher.is_none()
    }

    /// Announces what this subscription loses from now on.
    pub(crate) fn follow(
        &mut self,
        measured: &Arc<Measured>,
        publisher: Option<Publisher<MessagesLostEvent>>,
    ) {
        if self.publisher.is_none() {
            self.publisher = publisher;
        }
        self.collect_ended();
        if let (Some(request), Some(_)) = (&measured.request, &self.publisher) {
            self.followed.push(Followed {
                topic: request.topic.clone(),
                recording: Arc::clone(&measured.recording),
                subscription: Arc::downgrade(measured),
                announced: 0,
            });
        }
    }

    /// Keeps of subscriptions that have ended no more than what each topic lost.
    fn collect_ended(&mut self) {
        self.followed.retain_mut(|followed| {
            // Before the losses are read: what is lost after that is read the next time.
            let lives = followed.subscription.strong_count() > 0;
            if !lives {
                let lost = followed.take();
                if lost > 0 {
                    *self.ended.entry(std::mem::take(&mut followed.topic)).or_default() += lost;
                }
            }
            lives
        });
        if self.ended.len() >= Self::ENDED {
            self.not_before = Instant::now(); // an event is due, however often there may be one
        }
    }

    /// When to look for losses; None if there is nothing to look at.
    pub(crate) fn wake(&self) -> Option<Instant> {
        (!self.followed.is_empty() || !self.ended.is_empty()).then_some(self.not_before)
    }

    /// Returns the event that is due, if something was lost since the last one.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Event> {
        if self.wake()? > now {
            return None;
        }
        self.not_before = now + self.gap?;
        self.rest()
    }

    /// Returns the event about all that was not announced, whether it is time for one or not.
    pub(crate) fn rest(&mut self) -> Option<Event> {
        let publisher = Arc::clone(self.publisher.as_ref()?);
        self.collect_ended();
        let statistic = |topic_name, messages_lost| MessagesLostEventTopicStat { topic_name, messages_lost };
        let ended = std::mem::take(&mut self.ended).into_iter().map(|(topic, lost)| statistic(topic, lost));
        let live = self.followed.iter_mut().filter_map(|followed| {
            let lost = followed.take();
            (lost > 0).then(|| statistic(followed.topic.clone(), lost))
        });
        let messages_lost_statistics: Vec<_> = ended.chain(live).collect();
        if messages_lost_statistics.is_empty() {
            return None;
        }
        Some((MessagesLostEvent { node_name: self.node_name.clone(), messages_lost_statistics }, publisher))
    }
}

/// Publishes an event.
pub(crate) fn publish(
    event: MessagesLostEvent,
    publisher: &Publisher<MessagesLostEvent>,
    failures: &mut Failures,
) {
    if let Err(error) = publisher.publish(event) {
        failures.add(|| format!("an event on {TOPIC}: {error}"));
    }
}
