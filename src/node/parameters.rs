// SPDX-License-Identifier: Apache-2.0

//! The ROS parameters of a node's statistics.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use rclrs::{DeclarationError, MandatoryParameter, Node, ParameterValue, ReadOnlyParameter};

use crate::{
    error::StatisticsError,
    options::{check_period, TopicStatisticsOptions, TopicStatisticsState},
    schedule::scheduler::Scheduler,
};

const ENABLED: &str = "topic_statistics.enabled";
const PUBLISH_PERIOD: &str = "topic_statistics.publish_period";
const DISTRIBUTIONS: &str = "topic_statistics.distributions";
const PUBLISH_TOPIC: &str = "topic_statistics.publish_topic";

/// The parameters of a node's statistics. Dropping them undeclares them.
pub(crate) struct Parameters {
    enabled: MandatoryParameter<bool>,
    /// Seconds, as a double or an integer.
    publish_period: MandatoryParameter<ParameterValue>,
    distributions: MandatoryParameter<bool>,
    publish_topic: ReadOnlyParameter<Arc<str>>,
}

impl Parameters {
    /// Declares the parameters. Their defaults are the node's options.
    ///
    /// Returns None if other statistics of the same node have declared them already.
    pub(crate) fn declare(
        node: &Node,
        options: &TopicStatisticsOptions,
    ) -> Result<Option<Self>, StatisticsError> {
        let enabled = node
            .declare_parameter(ENABLED)
            .default(options.state != TopicStatisticsState::Disable)
            .description("Whether the node's subscriptions publish topic statistics")
            .mandatory();
        let enabled = match enabled {
            Err(DeclarationError::AlreadyDeclared) => return Ok(None),
            enabled => {
                enabled.map_err(|error| invalid(node, ENABLED, "it has to be true or false", &error))?
            }
        };
        let publish_period = options.publish_period.unwrap_or(TopicStatisticsOptions::PUBLISH_PERIOD);
        let publish_period = node
            .declare_parameter(PUBLISH_PERIOD)
            .default(ParameterValue::Double(publish_period.as_secs_f64()))
            .description("Seconds from one publication of topic statistics to the next")
            .constraints("A number from 0.001 to 86400.0")
            .validate(|value| seconds(value).map(drop))
            .mandatory()
            .map_err(|error| invalid(node, PUBLISH_PERIOD, "it has to be a number of seconds", &error))?;
        let distributions = node
            .declare_parameter(DISTRIBUTIONS)
            .default(options.has_distributions())
            .description(
                "Whether the distributions of samples are published, on <publish_topic>/distribution",
            )
            .mandatory()
            .map_err(|error| invalid(node, DISTRIBUTIONS, "it has to be true or false", &error))?;
        let publish_topic = node
            .declare_parameter(PUBLISH_TOPIC)
            .default(Arc::from(options.publisher_topic()))
            .description("The topic on which topic statistics are published")
            .read_only()
            .map_err(|error| invalid(node, PUBLISH_TOPIC, "it has to be a topic name", &error))?;
        Ok(Some(Self { enabled, publish_period, distributions, publish_topic }))
    }

    /// Returns the node's options with the values of the parameters.
    pub(crate) fn apply_to(&self, options: TopicStatisticsOptions) -> TopicStatisticsOptions {
        let state =
            if self.enabled.get() { TopicStatisticsState::Enable } else { TopicStatisticsState::Disable };
        let options = options
            .state(state)
            .distributions(self.distributions.get())
            .publish_topic(&*self.publish_topic.get());
        match seconds(&self.publish_period.get()) {
            Ok(period) => options.publish_period(period),
            Err(_) => options, // refused by the validation
        }
    }

    /// Sets `topic_statistics.enabled`.
    pub(crate) fn set_enabled(&self, enabled: bool) {
        // No bool is refused.
        let _accepted = self.enabled.set(enabled);
    }

    /// Sets `topic_statistics.publish_period`; `period` has to be in range.
    pub(crate) fn set_publish_period(&self, period: Duration) {
        let _accepted = self.publish_period.set(ParameterValue::Double(period.as_secs_f64()));
    }

    /// Sets `topic_statistics.distributions`.
    pub(crate) fn set_distributions(&self, distributions: bool) {
        let _accepted = self.distributions.set(distributions);
    }

    /// Applies changes of the parameters to the scheduler from now on.
    pub(crate) fn apply_changes_to(&self, scheduler: &Arc<Scheduler>) {
        let weak = Arc::downgrade(scheduler);
        self.enabled.on_change(move |enabled| on(&weak, |scheduler| scheduler.set_enabled(*enabled)));
        let weak = Arc::downgrade(scheduler);
        self.distributions
            .on_change(move |enabled| on(&weak, |scheduler| scheduler.set_distributions(*enabled)));
        let weak = Arc::downgrade(scheduler);
        self.publish_period.on_change(move |period| {
            if let Ok(period) = seconds(period) {
                on(&weak, |scheduler| scheduler.set_publish_period(period));
            }
        });
    }
}

fn on(scheduler: &Weak<Scheduler>, act: impl FnOnce(&Scheduler)) {
    if let Some(scheduler) = scheduler.upgrade() {
        act(&scheduler);
    }
}

/// Returns a publish period, or the reason why the value is not one.
fn seconds(value: &ParameterValue) -> Result<Duration, String> {
    let seconds = match value {
        ParameterValue::Double(seconds) => *seconds,
        ParameterValue::Integer(seconds) => *seconds as f64,
        other => return Err(format!("A publish period is a number of seconds, like 1.0, not {other:?}")),
    };
    Duration::try_from_secs_f64(seconds).ok().and_then(|period| check_period(period).ok()).ok_or_else(|| {
        format!("A publish period of {seconds} s is not possible: it has to be from 0.001 to 86400.0 s")
    })
}

fn invalid(node: &Node, name: &'static str, rule: &str, error: &DeclarationError) -> StatisticsError {
    let reason = match error {
        DeclarationError::InitialValueRejected(reason) => reason.clone(),
        error => format!("{error}; {rule}"),
    };
    StatisticsError::InvalidParameter { name, node: node.fully_qualified_name(), reason }
}
