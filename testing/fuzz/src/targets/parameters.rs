// SPDX-License-Identifier: Apache-2.0

//! Any values of ROS parameters and options.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use rclrs::{Context, CreateBasicExecutor, InitOptions, Node, ParameterValue, ParameterValueError};
use rclrs_topic_statistics::{
    health::{Condition, Conditions},
    testing::{check, with_defaults, Parameters, Values},
    AgeSource, Metric, NodeStatisticsOptions, SourceName, TopicStatisticsOptions, TopicStatisticsState,
};
use topic_statistics_core::{
    health::{Level, NodeExpectations},
    schedule::losses::LossEvents,
    Escaped,
};

use crate::{check::has_no_control, input::Input};

/// The shortest and the longest window, by docs/options.md.
const PERIODS: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(86_400);

/// A value is refused with an error that names it, or the options are in their documented ranges.
pub fn parameters(bytes: &[u8]) {
    let mut input = Input(bytes);
    let options = topic_options(&mut input);
    node_options(&mut input, &options);
    if !is_in_range(&Values::from(&options)) {
        return;
    }
    let Ok(Some(parameters)) = Parameters::declare(node(), &options) else {
        panic!("the parameters cannot be declared with {options:?}")
    };
    let given = Values::from(&options);
    let values = || Values::from(&parameters.apply_to(options.clone()));
    let set = values();
    assert_eq!(set.publish_period, given.publish_period.or(Some(Duration::from_secs(1))));
    assert_eq!(set.publish_topic, given.publish_topic);
    let is_enabled = given.state != TopicStatisticsState::Disable;
    assert_eq!(set.state == TopicStatisticsState::Enable, is_enabled);

    let mut before = set;
    for _ in 0..8 {
        if input.is_empty() {
            break;
        }
        let name = ["enabled", "publish_period", "publish_topic", "warn_unless"][input.below(4)];
        let value = value(&mut input);
        if name == "warn_unless" {
            conditions(&parameters, &value);
            continue;
        }
        let result = match (&value, name) {
            // A parameter with one type is set by a value of that type.
            (ParameterValue::Bool(value), "enabled") => set_undeclared(name, *value),
            (ParameterValue::String(value), "publish_topic") => set_undeclared(name, Arc::clone(value)),
            _ => set_undeclared(name, value.clone()),
        };
        let after = values();
        assert!(is_in_range(&after), "{value:?} gives {after:?}");
        match result {
            Err(error) => {
                assert_eq!(after, before, "{name} is refused and changed: {value:?}");
                is_named(&error, &value);
            }
            Ok(()) if name == "publish_period" => {
                let seconds = match value {
                    ParameterValue::Double(seconds) => seconds,
                    ParameterValue::Integer(seconds) => seconds as f64,
                    other => panic!("{other:?} is a period"),
                };
                let period = after.publish_period.expect("a period").as_secs_f64();
                assert!((period - seconds).abs() < 1e-9, "{period} s instead of {seconds} s");
            }
            Ok(()) => assert_eq!(value, ParameterValue::Bool(after.state == TopicStatisticsState::Enable)),
        }
        before = after;
    }
}

/// Sets conditions. The parameter has them, or they are refused and the old ones stay.
fn conditions(parameters: &Parameters, value: &ParameterValue) {
    let conditions = || -> Vec<Condition> {
        let expected = parameters.apply_to_expectations(&NodeExpectations::default());
        let of_warn =
            |(level, condition): (Level, &Condition)| (level == Level::Warn).then(|| condition.clone());
        expected.expectations.map(|all| all.conditions().filter_map(of_warn).collect()).unwrap_or_default()
    };
    let before = conditions();
    let result = match value {
        ParameterValue::StringArray(texts) => set_undeclared("warn_unless", Arc::clone(texts)),
        other => set_undeclared("warn_unless", other.clone()),
    };
    match result {
        Err(ParameterValueError::ValidationFailed(text)) => has_no_control(&text, "an error"),
        Err(_) => {}
        Ok(()) => {
            // Written and read again they are the same.
            let texts: Vec<_> = conditions().iter().map(ToString::to_string).collect();
            let again = texts.iter().flat_map(|text| text.parse::<Conditions>().into_iter().flatten());
            assert!(texts.iter().any(|text| text.contains('…')) || again.eq(conditions()), "{texts:?}");
            return;
        }
    }
    assert_eq!(conditions(), before, "{value:?} is refused and changes the conditions");
}

fn set_undeclared<T: rclrs::ParameterVariant>(name: &str, value: T) -> Result<(), ParameterValueError> {
    node().use_undeclared_parameters().set(format!("topic_statistics.{name}"), value)
}

/// Panics if an error does not name the value that it is about.
fn is_named(error: &ParameterValueError, value: &ParameterValue) {
    let ParameterValueError::ValidationFailed(text) = error else { return };
    has_no_control(text, "an error");
    let named = match value {
        ParameterValue::Double(seconds) => seconds.to_string(),
        ParameterValue::Integer(seconds) => (*seconds as f64).to_string(),
        ParameterValue::String(text) => Escaped(text).to_string(),
        ParameterValue::Bool(value) => value.to_string(),
        _ => "a list".to_owned(),
    };
    assert!(text.contains(&named), "{text} does not name {named}");
}

/// One node for all runs.
fn node() -> &'static Node {
    static NODE: OnceLock<Node> = OnceLock::new();
    NODE.get_or_init(|| {
        std::env::set_var("ROS_AUTOMATIC_DISCOVERY_RANGE", "OFF");
        let options = InitOptions::new().with_domain_id(Some(83));
        let context = Context::new(["fuzz".to_owned()], options).expect("a context");
        let executor = context.create_basic_executor();
        executor.create_node("fuzz").expect("a node")
    })
}

fn value(input: &mut Input) -> ParameterValue {
    match input.below(10) {
        0 => ParameterValue::Bool(input.bool()),
        1 => ParameterValue::Integer(input.i64()),
        2 => ParameterValue::Integer(input.u8().into()),
        3 => ParameterValue::String(input.text().into()),
        4 => ParameterValue::ByteArray(input.text().into_bytes().into()),
        5 => ParameterValue::DoubleArray(vec![input.f64(), input.f64()].into()),
        6 => ParameterValue::StringArray(vec![Arc::from(input.text())].into()),
        7 => ParameterValue::Double(f64::from(input.i32()) / 1e4),
        _ => ParameterValue::Double(input.f64()),
    }
}

fn topic_options(input: &mut Input) -> TopicStatisticsOptions {
    let mut options = TopicStatisticsOptions::new();
    if input.bool() {
        options = options.publish_period(input.duration());
    }
    match input.below(4) {
        0 => options = options.state(TopicStatisticsState::Enable),
        1 => options = options.state(TopicStatisticsState::Disable).age_source(AgeSource::SourceTimestamp),
        2 => options = options.publish_topic(input.text()),
        _ => {}
    }
    if input.below(4) == 0 {
        options = options.source_name(SourceName::Custom(input.text()));
    }
    if input.below(4) == 0 {
        let number = input.below(4);
        options = options.metrics((0..number).map(|_| Metric::ALL[input.below(Metric::ALL.len())]));
    }
    options
}

/// Returns whether all values are in their documented ranges.
fn is_in_range(options: &Values) -> bool {
    let period = options.publish_period.is_none_or(|period| PERIODS.contains(&period));
    // By the table in docs/statistics.md, the metrics from `publish_period` on are of other sources.
    let mut metrics = options.metrics.iter().flatten();
    let metrics = metrics.all(|metric| *metric < Metric::PublishPeriod);
    period && metrics && options.source_name != Some(SourceName::Custom(String::new()))
}

fn node_options(input: &mut Input, of_topics: &TopicStatisticsOptions) {
    let rate = if input.bool() { input.f64() } else { 1.0 };
    let options = NodeStatisticsOptions::new().topic_statistics(of_topics.clone()).max_event_rate(rate);
    let is_rate = rate == 0.0 || (1e-5..=1000.0).contains(&rate);
    let of_topics_in_range = is_in_range(&Values::from(of_topics));
    match check(&options) {
        Ok(()) => {
            assert!(is_rate && of_topics_in_range, "{options:?}");
            // The use of the rate.
            LossEvents::new("/node".to_owned(), rate);
            assert!(check(&with_defaults(TopicStatisticsOptions::new(), of_topics).into()).is_ok());
        }
        Err(error) => {
            assert!(!(is_rate && of_topics_in_range), "{options:?}: {error}");
            has_no_control(&error.to_string(), "an error");
        }
    }
}
