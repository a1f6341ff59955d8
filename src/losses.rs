//! Losses announced: an event on `/events/messages_lost` when subscriptions of the node did not get messages.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use rclrs::Publisher;
use ros_env::topic_statistics_interfaces::msg::{MessagesLostEvent, MessagesLostEventTopicStat};

use crate::measured::{Measured, Recording};

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
}

struct Followed {
    topic: String,
    recording: Arc<dyn Recording>,
    /// A subscription that has ended is followed until its last losses are announced.
    subscription: Weak<Measured>,
    announced: u64,
}

/// An event, and what publishes it.
type Event = (MessagesLostEvent, Publisher<MessagesLostEvent>);

impl LossEvents {
    /// `max_rate` events a second at most; 0 is none at all.
    pub(crate) fn new(node_name: String, max_rate: f64) -> Self {
        Self {
            node_name,
            gap: (max_rate > 0.0).then(|| Duration::from_secs_f64(1.0 / max_rate)),
            not_before: Instant::now(),
            publisher: None,
            followed: vec![],
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
        if let (Some(request), Some(_)) = (&measured.request, &self.publisher) {
            self.followed.push(Followed {
                topic: request.topic.clone(),
                recording: Arc::clone(&measured.recording),
                subscription: Arc::downgrade(measured),
                announced: 0,
            });
        }
    }

    /// When to look for losses; None if there is nothing to look at.
    pub(crate) fn wake(&self) -> Option<Instant> {
        (!self.followed.is_empty()).then_some(self.not_before)
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
        let mut messages_lost_statistics = vec![];
        self.followed.retain_mut(|followed| {
            // Before the losses are read: what is lost after that is for the next event.
            let lives = followed.subscription.strong_count() > 0;
            let lost = followed.recording.totals().and_then(|totals| totals.lost).unwrap_or(0);
            // A late message that takes a loss back takes none back that was announced.
            if let Some(messages_lost @ 1..) = lost.checked_sub(followed.announced) {
                followed.announced = lost;
                let topic_name = followed.topic.clone();
                messages_lost_statistics.push(MessagesLostEventTopicStat { topic_name, messages_lost });
            }
            lives
        });
        if messages_lost_statistics.is_empty() {
            return None;
        }
        Some((MessagesLostEvent { node_name: self.node_name.clone(), messages_lost_statistics }, publisher))
    }
}

/// Publishes an event.
pub(crate) fn publish(event: MessagesLostEvent, publisher: &Publisher<MessagesLostEvent>) {
    if let Err(error) = publisher.publish(event) {
        tracing::warn!("An event on {TOPIC} could not be published: {error}");
    }
}
