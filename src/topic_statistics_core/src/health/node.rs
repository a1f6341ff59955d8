// SPDX-License-Identifier: Apache-2.0

//! The expectations of a node: which conditions apply to which source, and which metrics the conditions need.

use std::sync::Arc;

use super::{Expectations, Level};
use crate::{
    condition::{Condition, Quantity},
    metric::{names, Metric},
    source_kind::SourceKind,
};

/// The expectations of a node's sources.
#[derive(Clone, Debug, Default)]
pub struct NodeExpectations {
    /// The expectations; `None` if the node has no expectations.
    pub expectations: Option<Arc<Expectations>>,
    /// Whether the node's options have expectations without conditions. Then the only expectation is that all
    /// subscriptions receive messages.
    expects_messages: bool,
}

/// The names by which a condition can select a source.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The `measurement_source_name` of the source.
    pub source: &'a str,
    /// The `measurement_source_name` without the number that distinguishes sources with equal names.
    pub plain_source: &'a str,
    /// The resolved topic name of a subscription or a publisher.
    pub topic: Option<&'a str>,
    /// The topic name as it is written in the node's code.
    pub given: Option<&'a str>,
}

impl Names<'_> {
    /// Returns whether a condition with the topic `topic` is about the source.
    pub fn include(self, topic: &str) -> bool {
        // The source name of a stopwatch or a counter consists of the node's name, a colon and the given name.
        let after_node = |source: &'_ str| source.split_once(':').is_some_and(|(_, name)| name == topic);
        [self.topic, self.given].contains(&Some(topic))
            || [self.source, self.plain_source]
                .into_iter()
                .any(|source| source == topic || after_node(source))
    }
}

impl NodeExpectations {
    /// Creates the expectations of a node from the node's options.
    pub fn new(options: Option<Expectations>) -> Self {
        let expects_messages = options.as_ref().is_some_and(|options| options.conditions().next().is_none());
        Self { expects_messages, expectations: options.map(Arc::new) }
    }

    /// Returns a copy in which `conditions` replace the conditions for `level`.
    pub fn with(&self, level: Level, conditions: Vec<Condition>) -> Self {
        let mut expectations = self.expectations.as_deref().cloned().unwrap_or_default();
        match level {
            Level::Error => expectations.error_unless = conditions,
            _ => expectations.warn_unless = conditions,
        }
        let is_empty = !self.expects_messages && expectations.conditions().next().is_none();
        Self { expectations: (!is_empty).then(|| Arc::new(expectations)), ..*self }
    }

    /// Returns the expectations of one source; `None` if the source has no expectations.
    pub fn select(&self, names: Names<'_>, kind: SourceKind) -> Option<Expectations> {
        let is_subscription = kind == SourceKind::Subscription;
        let selected = self.expectations.as_ref()?.select(names, kind, is_subscription);
        let is_expected = self.expects_messages && is_subscription || selected.conditions().next().is_some();
        is_expected.then_some(selected)
    }
}

#[doc(hidden)] // for authors of nodes
impl Expectations {
    /// The largest number of conditions for one level.
    pub const CONDITIONS: usize = 1000;

    /// Returns the conditions that apply to a source. A condition applies if the source's kind measures the condition's
    /// quantity and the condition names the source. If `takes_all` is true, a condition without a name applies, too.
    pub fn select(&self, names: Names<'_>, kind: SourceKind, takes_all: bool) -> Self {
        let is_about = |condition: &Condition| {
            condition.topic().map_or(takes_all, |topic| names.include(topic))
                && is_measured_by(condition.quantity(), kind)
        };
        let about = |conditions: &[Condition]| {
            conditions.iter().filter(|condition| is_about(condition)).cloned().collect()
        };
        Self { warn_unless: about(&self.warn_unless), error_unless: about(&self.error_unless), ..*self }
    }

    /// Keeps only the conditions on quantities that a source can measure. Returns `None` if there were conditions and
    /// none of them is left.
    pub fn measurable(mut self, can_measure: impl Fn(Metric) -> bool) -> Option<Self> {
        let had_conditions = self.conditions().next().is_some();
        let is_measurable = |condition: &Condition| needed(condition.quantity()).is_none_or(&can_measure);
        self.warn_unless.retain(is_measurable);
        self.error_unless.retain(is_measurable);
        (!had_conditions || self.conditions().next().is_some()).then_some(self)
    }

    /// Returns the metrics that the conditions need.
    pub fn metrics(&self) -> impl Iterator<Item = Metric> + '_ {
        self.conditions().filter_map(|(_, condition)| needed(condition.quantity()))
    }

    /// Returns an error with the reason if a source of this kind never measures the quantity of a condition. A
    /// condition with a topic may apply to a source of any kind, so it is an error only if no kind of source can
    /// measure its quantity.
    pub fn check(&self, kind: SourceKind) -> Result<(), (String, String)> {
        for (_, condition) in self.conditions() {
            let kind = condition.topic().is_none().then_some(kind);
            check(condition, kind).map_err(|reason| (condition.to_string(), reason))?;
        }
        Ok(())
    }
}

/// Returns an error with the reason if a source of this kind never measures the condition's quantity. With the kind
/// `None`, returns an error only if no kind of source can measure the quantity.
pub fn check(condition: &Condition, kind: Option<SourceKind>) -> Result<(), String> {
    let quantity = condition.quantity();
    match (quantity, kind) {
        (Quantity::Publishers, _) => {
            Err("a node does not count the publishers of a topic; topic_monitor does".to_owned())
        }
        (Quantity::Lost | Quantity::OutOfOrder, Some(kind)) if !is_measured_by(quantity, kind) => {
            Err(format!("a {kind} does not know what is lost"))
        }
        (_, Some(kind)) if !is_measured_by(quantity, kind) => {
            let metric = needed(quantity).map_or_else(String::new, |metric| metric.to_string());
            Err(format!("a {kind} does not measure {metric}: it has {}", names(kind.metrics())))
        }
        _ => Ok(()),
    }
}

/// Returns whether a source of this kind can measure a quantity.
pub fn is_measured_by(quantity: Quantity, kind: SourceKind) -> bool {
    quantity != Quantity::Publishers && needed(quantity).is_none_or(|metric| kind.measures(metric))
}

/// Returns the metric that a quantity needs; `None` if the quantity is always known.
pub fn needed(quantity: Quantity) -> Option<Metric> {
    match quantity {
        Quantity::Metric(metric, _) => Some(metric),
        Quantity::Lost | Quantity::OutOfOrder => Some(Metric::PublicationSeqGap),
        Quantity::Bytes | Quantity::Bandwidth => Some(Metric::MessageSize),
        _ => None,
    }
}
