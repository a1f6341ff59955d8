// SPDX-License-Identifier: Apache-2.0

//! What is expected of the sources of a node: which conditions are about which source, and what they need.

use std::sync::Arc;

use super::{Expectations, Level};
use crate::{
    condition::{Condition, Quantity},
    window::{names, Metric},
};

/// What is expected of the sources of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeExpectations {
    /// None if nothing is.
    pub(crate) expectations: Option<Arc<Expectations>>,
    /// The node's options expect nothing but messages, of all subscriptions.
    expects_messages: bool,
}

/// The names by which a condition can be about a source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    /// The `measurement_source_name`.
    pub(crate) source: &'a str,
    /// The resolved topic of a subscription.
    pub(crate) topic: Option<&'a str>,
    /// The topic as the node's code has it.
    pub(crate) given: Option<&'a str>,
}

impl Names<'_> {
    /// Returns whether a condition with that topic is about the source.
    fn are(self, topic: &str) -> bool {
        // The source of a publisher, a timer or a counter has it after the node's name.
        let after_node = self.source.split_once(':').map(|(_, name)| name);
        [Some(self.source), self.topic, self.given, after_node]
            .into_iter()
            .flatten()
            .any(|name| name == topic)
    }
}

/// What measures a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Subscription,
    Publisher,
}

impl NodeExpectations {
    /// Those of the node's options.
    pub(crate) fn new(options: Option<Expectations>) -> Self {
        let expects_messages = options.as_ref().is_some_and(|of| of.conditions().next().is_none());
        Self { expects_messages, expectations: options.map(Arc::new) }
    }

    /// Returns these with other conditions for a level.
    pub(crate) fn with(&self, level: Level, conditions: Vec<Condition>) -> Self {
        let mut expectations = self.expectations.as_deref().cloned().unwrap_or_default();
        match level {
            Level::Error => expectations.error_unless = conditions,
            _ => expectations.warn_unless = conditions,
        }
        let is_empty = !self.expects_messages && expectations.conditions().next().is_none();
        Self { expectations: (!is_empty).then(|| Arc::new(expectations)), ..*self }
    }

    /// Returns what is expected of a source; None if nothing is.
    pub(crate) fn of(&self, names: Names<'_>, is_subscription: bool) -> Option<Expectations> {
        let of_it = self.expectations.as_ref()?.of(names, is_subscription);
        let concerns_it = self.expects_messages && is_subscription || of_it.conditions().next().is_some();
        concerns_it.then_some(of_it)
    }
}

impl Expectations {
    /// The largest number of conditions for a level.
    pub(crate) const CONDITIONS: usize = 1000;

    /// Returns the part that is about a source: its own conditions, and, if `takes_all`, those without a topic.
    pub(crate) fn of(&self, names: Names<'_>, takes_all: bool) -> Self {
        let is_about = |condition: &Condition| condition.topic().map_or(takes_all, |topic| names.are(topic));
        let about = |conditions: &[Condition]| conditions.iter().filter(|of| is_about(of)).cloned().collect();
        Self { warn_unless: about(&self.warn_unless), error_unless: about(&self.error_unless), ..*self }
    }

    /// Returns the metrics that the conditions need.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = Metric> + '_ {
        self.conditions().filter_map(|(_, condition)| needed(condition.quantity()))
    }

    /// Errors with the reason if a condition is about something that is never measured. Those with a topic may be about any source.
    pub(crate) fn check(&self, kind: Kind) -> Result<(), (String, String)> {
        for (_, condition) in self.conditions() {
            let kind = condition.topic().is_none().then_some(kind);
            check(condition, kind).map_err(|reason| (condition.to_string(), reason))?;
        }
        Ok(())
    }
}

/// Errors with the reason if a condition is about something that such a source, or any source, never measures.
pub(crate) fn check(condition: &Condition, kind: Option<Kind>) -> Result<(), String> {
    const OF_PUBLISHERS: &[Metric] = &[Metric::PublishPeriod, Metric::PublishDuration, Metric::MessageSize];
    let quantity = condition.quantity();
    match (quantity, kind) {
        (Quantity::Publishers, _) => {
            Err("a node does not count the publishers of a topic; topic_monitor does".to_owned())
        }
        (Quantity::Metric(metric, _), Some(Kind::Subscription))
            if !Metric::OF_SUBSCRIPTIONS.contains(&metric) =>
        {
            let metrics = names(Metric::OF_SUBSCRIPTIONS);
            Err(format!("a subscription does not measure {metric}: it has {metrics}"))
        }
        (Quantity::Metric(metric, _), Some(Kind::Publisher)) if !OF_PUBLISHERS.contains(&metric) => {
            Err(format!("a publisher does not measure {metric}: it has {}", names(OF_PUBLISHERS)))
        }
        (Quantity::Lost | Quantity::OutOfOrder, Some(Kind::Publisher)) => {
            Err("a publisher does not know what is lost".to_owned())
        }
        _ => Ok(()),
    }
}

/// Returns the metric that a quantity needs; None if it is always known.
pub(crate) fn needed(quantity: Quantity) -> Option<Metric> {
    match quantity {
        Quantity::Metric(metric, _) => Some(metric),
        Quantity::Lost | Quantity::OutOfOrder => Some(Metric::PublicationSeqGap),
        Quantity::Bytes | Quantity::Bandwidth => Some(Metric::MessageSize),
        _ => None,
    }
}
