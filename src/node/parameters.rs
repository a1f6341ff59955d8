// SPDX-License-Identifier: Apache-2.0

//! The ROS parameters of a node's statistics.

use std::{
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use rclrs::{DeclarationError, MandatoryParameter, Node, ParameterValue, ReadOnlyParameter};
use topic_statistics_core::{
    condition::{Condition, ConditionError, Conditions},
    health::{self, Expectations, Level, NodeExpectations},
    record::options::SourceDefaults,
    schedule::scheduler::Scheduler,
    source_kind::SourceKind,
    Escaped,
};

use crate::{
    error::StatisticsError,
    options::{check_period, StatisticsOptions},
};

pub(super) const ENABLED: &str = "topic_statistics.enabled";
const PUBLISH_PERIOD: &str = "topic_statistics.publish_period";
const DISTRIBUTIONS: &str = "topic_statistics.distributions";
const WARN_UNLESS: &str = "topic_statistics.warn_unless";
const ERROR_UNLESS: &str = "topic_statistics.error_unless";
const PUBLISH_TOPIC: &str = "topic_statistics.publish_topic";

/// The parameters of a node's statistics. Dropping this value undeclares the parameters.
#[allow(missing_debug_implementations)] // no other crate can name this
pub struct Parameters {
    enabled: MandatoryParameter<bool>,
    /// The period in seconds, as a double or an integer.
    publish_period: MandatoryParameter<ParameterValue>,
    distributions: MandatoryParameter<bool>,
    warn_unless: MandatoryParameter<Arc<[Arc<str>]>>,
    error_unless: MandatoryParameter<Arc<[Arc<str>]>>,
    publish_topic: ReadOnlyParameter<Arc<str>>,
    /// The scheduler checks new conditions: the sources must measure the metrics that the conditions need.
    scheduler: Arc<OnceLock<Weak<Scheduler>>>,
}

impl Parameters {
    /// Declares the ROS parameters. The node's options are the default values of the parameters.
    ///
    /// Returns `None` if another `NodeStatistics` of the node has already declared the parameters.
    pub fn declare(node: &Node, options: &StatisticsOptions) -> Result<Option<Self>, StatisticsError> {
        let defaults = options.of_node();
        let flag = |name, default: bool, description: &'static str| {
            node.declare_parameter(name).default(default).description(description).mandatory()
        };
        let flag_rule = "it has to be true or false";
        let description = "Whether the node's subscriptions publish topic statistics";
        let enabled = match flag(ENABLED, defaults.enabled, description) {
            Err(DeclarationError::AlreadyDeclared) => return Ok(None),
            enabled => enabled.map_err(|error| invalid(node, ENABLED, flag_rule, &error))?,
        };
        let publish_period = node
            .declare_parameter(PUBLISH_PERIOD)
            .default(ParameterValue::Double(defaults.publish_period.as_secs_f64()))
            .description("Seconds from one publication of topic statistics to the next")
            .constraints("A number from 0.001 to 86400.0")
            .validate(|value| seconds(value).map(drop))
            .mandatory()
            .map_err(|error| invalid(node, PUBLISH_PERIOD, "it has to be a number of seconds", &error))?;
        let description =
            "Whether the distributions of samples are published, on <publish_topic>/distribution";
        let distributions = flag(DISTRIBUTIONS, defaults.distributions, description)
            .map_err(|error| invalid(node, DISTRIBUTIONS, flag_rule, &error))?;
        let scheduler = Arc::new(OnceLock::new());
        let declare_conditions = |name, level: Level, description: &'static str| {
            let expectations = options.expectations.iter().flat_map(Expectations::conditions);
            let defaults = expectations.filter(|(condition_level, _)| *condition_level == level);
            let defaults: Vec<Arc<str>> =
                defaults.map(|(_, condition)| condition.to_string().into()).collect();
            let scheduler: Arc<OnceLock<Weak<Scheduler>>> = Arc::clone(&scheduler);
            node.declare_parameter::<Arc<[Arc<str>]>>(name)
                .default(defaults.into())
                .description(description)
                .constraints("Conditions such as \"rate>=90\" or \"/imu: age.p99<50ms\"")
                .validate(move |texts| {
                    let conditions = conditions(texts)?;
                    let scheduler = scheduler.get().and_then(Weak::upgrade);
                    scheduler.map_or(Ok(()), |scheduler| scheduler.check_measured(&conditions))
                })
                .mandatory()
                .map_err(|error| {
                    let rule = "it has to be a list of strings with conditions, like [\"rate>=90 age<50ms\"]";
                    invalid(node, name, rule, &error)
                })
        };
        let warn_unless = declare_conditions(
            WARN_UNLESS,
            Level::Warn,
            "Conditions without which a source's health is WARN",
        )?;
        let error_unless = declare_conditions(
            ERROR_UNLESS,
            Level::Error,
            "Conditions without which a source's health is ERROR",
        )?;
        let publish_topic = node
            .declare_parameter(PUBLISH_TOPIC)
            .default(Arc::from(options.publisher_topic()))
            .description("The topic on which topic statistics are published")
            .read_only()
            .map_err(|error| invalid(node, PUBLISH_TOPIC, "it has to be a topic name", &error))?;
        Ok(Some(Self {
            enabled,
            publish_period,
            distributions,
            warn_unless,
            error_unless,
            publish_topic,
            scheduler,
        }))
    }

    /// Returns the node's options, in which the values of the ROS parameters replace the values of the options.
    pub fn apply_to(&self, options: StatisticsOptions) -> StatisticsOptions {
        let SourceDefaults { enabled, publish_period, distributions, .. } = self.defaults();
        options
            .state(enabled.into())
            .publish_period(publish_period)
            .distributions(distributions)
            .publish_topic(&*self.publish_topic.get())
    }

    /// Returns the node's expectations, in which conditions of the ROS parameters replace the options' conditions.
    pub fn apply_to_expectations(&self, options: &NodeExpectations) -> NodeExpectations {
        // The conditions are valid, because the validation of the parameter has refused invalid conditions.
        let conditions = |parameter: &MandatoryParameter<Arc<[Arc<str>]>>| {
            conditions(&parameter.get()).unwrap_or_default()
        };
        let with_warnings = options.with(Level::Warn, conditions(&self.warn_unless));
        with_warnings.with(Level::Error, conditions(&self.error_unless))
    }

    pub(crate) fn change_defaults(&self, change: impl FnOnce(&mut SourceDefaults)) {
        let before = self.defaults();
        let mut defaults = before;
        change(&mut defaults);
        // The caller has checked that the values are in range, so the parameters accept the values.
        if defaults.enabled != before.enabled {
            let _accepted = self.enabled.set(defaults.enabled);
        }
        if defaults.publish_period != before.publish_period {
            let seconds = defaults.publish_period.as_secs_f64();
            let _accepted = self.publish_period.set(ParameterValue::Double(seconds));
        }
        if defaults.distributions != before.distributions {
            let _accepted = self.distributions.set(defaults.distributions);
        }
    }

    fn defaults(&self) -> SourceDefaults {
        let mut defaults = SourceDefaults::default();
        (defaults.enabled, defaults.distributions) = (self.enabled.get(), self.distributions.get());
        if let Ok(period) = seconds(&self.publish_period.get()) {
            defaults.publish_period = period; // the parameter's validation refuses others
        }
        defaults
    }

    pub(crate) fn apply_changes_to(&self, scheduler: &Arc<Scheduler>) {
        let weak = || Arc::downgrade(scheduler);
        self.scheduler.get_or_init(weak);
        let to = weak();
        self.enabled.on_change(move |enabled| set(&to, |defaults| defaults.enabled = *enabled));
        let to = weak();
        self.distributions.on_change(move |enabled| set(&to, |defaults| defaults.distributions = *enabled));
        let to = weak();
        self.publish_period.on_change(move |period| {
            if let Ok(period) = seconds(period) {
                set(&to, |defaults| defaults.publish_period = period);
            }
        });
        for (parameter, level) in [(&self.warn_unless, Level::Warn), (&self.error_unless, Level::Error)] {
            let to = weak();
            parameter.on_change(move |texts| {
                if let (Ok(conditions), Some(scheduler)) = (conditions(texts), to.upgrade()) {
                    scheduler.set_conditions(level, conditions);
                }
            });
        }
    }
}

fn set(scheduler: &Weak<Scheduler>, change: impl FnOnce(&mut SourceDefaults)) {
    if let Some(scheduler) = scheduler.upgrade() {
        scheduler.change_defaults(change);
    }
}

/// Returns the conditions in a parameter's texts, or the mistake as the error. A blank text has no conditions.
fn conditions(texts: &[Arc<str>]) -> Result<Vec<Condition>, String> {
    let mut all = vec![];
    for text in texts.iter().filter(|text| !text.trim().is_empty()) {
        let conditions: Conditions = text.parse().map_err(|error: ConditionError| error.to_string())?;
        for condition in conditions {
            let kind = condition.topic().is_none().then_some(SourceKind::Subscription);
            health::check(&condition, kind).map_err(|reason| format!("{condition}: {reason}"))?;
            all.push(condition);
        }
    }
    match all.len() {
        0..=Expectations::CONDITIONS => Ok(all),
        count => Err(format!("{count} conditions are too many: {} are possible", Expectations::CONDITIONS)),
    }
}

/// Returns a publish period, or the reason why the value is not a valid period.
fn seconds(value: &ParameterValue) -> Result<Duration, String> {
    let seconds = match value {
        ParameterValue::Double(seconds) => *seconds,
        ParameterValue::Integer(seconds) => *seconds as f64,
        ParameterValue::String(text) => {
            return Err(format!(
                "A publish period is a number of seconds, like 1.0, not the text \"{}\"",
                Escaped(text)
            ))
        }
        ParameterValue::Bool(value) => {
            return Err(format!("A publish period is a number of seconds, like 1.0, not {value}"))
        }
        _ => return Err("A publish period is a number of seconds, like 1.0, not a list".to_owned()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_a_number_of_seconds_in_range() {
        use ParameterValue::{Bool, Double, Integer, IntegerArray, String};
        for (value, period) in [(Double(0.001), 1), (Double(0.25), 250), (Integer(86_400), 86_400_000)] {
            assert_eq!(seconds(&value), Ok(Duration::from_millis(period)), "{value:?}");
        }
        let range = "is not possible: it has to be from 0.001 to 86400.0 s";
        let number = "A publish period is a number of seconds, like 1.0, not";
        for (value, reason) in [
            (Double(0.0), format!("A publish period of 0 s {range}")),
            (Double(-1.5), format!("A publish period of -1.5 s {range}")),
            (Double(f64::NAN), format!("A publish period of NaN s {range}")),
            (Double(f64::INFINITY), format!("A publish period of inf s {range}")),
            (Integer(86_401), format!("A publish period of 86401 s {range}")),
            (String("soon\n".into()), format!("{number} the text \"soon\\u{{a}}\"")),
            (Bool(true), format!("{number} true")),
            (IntegerArray([1].into()), format!("{number} a list")),
        ] {
            assert_eq!(seconds(&value), Err(reason), "{value:?}");
        }
    }

    #[test]
    fn a_parameter_has_conditions_or_the_mistake_in_one() {
        let read =
            |texts: &[&str]| conditions(&texts.iter().map(|text| Arc::from(*text)).collect::<Vec<_>>());
        assert_eq!(read(&["", " "]), Ok(vec![]));
        assert_eq!(read(&["rate>=90 age<50ms", "/out: publish_period<5"]).unwrap().len(), 3);
        for (text, reason) in [
            ("rate>=fast", "(character 7 of \"rate>=fast\")"),
            (
                "age<fast",
                "\"age\" needs a number, such as 90 or 0.5, not \"fast\" (character 5 of \"age<fast\")",
            ),
            ("publishers=1", "a node does not count the publishers"),
            ("publish_period<5", "a subscription does not measure publish_period"),
        ] {
            let error = read(&["rate>=90", text]).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        let many = vec!["rate>=1"; Expectations::CONDITIONS + 1];
        assert_eq!(read(&many[1..]).unwrap().len(), Expectations::CONDITIONS);
        assert_eq!(read(&many).unwrap_err(), "1001 conditions are too many: 1000 are possible");
    }
}
