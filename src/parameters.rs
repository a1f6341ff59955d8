// SPDX-License-Identifier: Apache-2.0

//! The ROS parameters by which operators set the statistics of a node, without recompiling it.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use rclrs::{DeclarationError, MandatoryParameter, Node, ParameterValue, ReadOnlyParameter};

use crate::{
    options::{check_period, TopicStatisticsOptions, TopicStatisticsState},
    schedule::Schedule,
    StatisticsError,
};

const ENABLED: &str = "topic_statistics.enabled";
const PUBLISH_PERIOD: &str = "topic_statistics.publish_period";
const PUBLISH_TOPIC: &str = "topic_statistics.publish_topic";

/// The declared parameters of a node's statistics. Dropped, they are undeclared.
pub(crate) struct Parameters {
    enabled: MandatoryParameter<bool>,
    /// Seconds; a whole number may be written without a point.
    publish_period: MandatoryParameter<ParameterValue>,
    publish_topic: ReadOnlyParameter<Arc<str>>,
}

impl Parameters {
    /// Declares the parameters, with what the node's options say as defaults.
    ///
    /// Returns None if they are declared already, by other statistics of the same node.
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
        let publish_topic = node
            .declare_parameter(PUBLISH_TOPIC)
            .default(Arc::from(options.publisher_topic()))
            .description("The topic on which topic statistics are published")
            .read_only()
            .map_err(|error| invalid(node, PUBLISH_TOPIC, "it has to be a topic name", &error))?;
        Ok(Some(Self { enabled, publish_period, publish_topic }))
    }

    /// Returns the node's options as the parameters have them.
    pub(crate) fn apply_to(&self, options: TopicStatisticsOptions) -> TopicStatisticsOptions {
        let state =
            if self.enabled.get() { TopicStatisticsState::Enable } else { TopicStatisticsState::Disable };
        let options = options.state(state).publish_topic(&*self.publish_topic.get());
        match seconds(&self.publish_period.get()) {
            Ok(period) => options.publish_period(period),
            Err(_) => options, // the validation has refused it
        }
    }

    /// Sets `topic_statistics.enabled`.
    pub(crate) fn set_enabled(&self, enabled: bool) {
        // No bool is refused.
        let _accepted = self.enabled.set(enabled);
    }

    /// Sets `topic_statistics.publish_period`; `period` has to be possible.
    pub(crate) fn set_publish_period(&self, period: Duration) {
        let _accepted = self.publish_period.set(ParameterValue::Double(period.as_secs_f64()));
    }

    /// From now on, changes reach the schedule.
    pub(crate) fn drive(&self, schedule: &Arc<Schedule>) {
        let weak = Arc::downgrade(schedule);
        self.enabled.on_change(move |enabled| on(&weak, |schedule| schedule.set_enabled(*enabled)));
        let weak = Arc::downgrade(schedule);
        self.publish_period.on_change(move |period| {
            if let Ok(period) = seconds(period) {
                on(&weak, |schedule| schedule.set_publish_period(period));
            }
        });
    }
}

fn on(schedule: &Weak<Schedule>, act: impl FnOnce(&Schedule)) {
    if let Some(schedule) = schedule.upgrade() {
        act(&schedule);
    }
}

/// Returns a publish period, or the reason why it is none.
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
