// SPDX-License-Identifier: Apache-2.0

//! Sets ROS parameters of the library to any values.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use rclrs::{Context, CreateBasicExecutor, InitOptions, Node, ParameterValue, ParameterValueError};
use rclrs_topic_statistics::{
    health::{Condition, Conditions},
    testing::{Parameters, Values},
    StatisticsOptions, StatisticsState,
};
use topic_statistics_core::health::{Level, NodeExpectations};

use crate::{check::has_no_control, input::Input};

/// The shortest and the longest window that docs/options.md allows.
const PERIODS: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(86_400);

/// The node must refuse a value with an error that names the value, or keep all options in their documented ranges.
pub fn parameters(bytes: &[u8]) {
    let mut input = Input(bytes);
    let options = StatisticsOptions::new();
    let Ok(Some(parameters)) = Parameters::declare(node(), &options) else {
        panic!("the parameters cannot be declared")
    };
    let values = || Values::from(&parameters.apply_to(options.clone()));
    let mut before = values();
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
            // These parameters have a fixed type, so rclrs sets them only to values of this type.
            (ParameterValue::Bool(value), "enabled") => set_undeclared(name, *value),
            (ParameterValue::String(value), "publish_topic") => set_undeclared(name, Arc::clone(value)),
            _ => set_undeclared(name, value.clone()),
        };
        let after = values();
        let period = after.publish_period.expect("a period");
        assert!(PERIODS.contains(&period), "{value:?} gives {after:?}");
        match result {
            Err(error) => {
                assert_eq!(after, before, "{name} is refused and changed: {value:?}");
                has_no_control(&error.to_string(), "an error");
            }
            Ok(()) if name == "publish_period" => {
                let seconds = match value {
                    ParameterValue::Double(seconds) => seconds,
                    ParameterValue::Integer(seconds) => seconds as f64,
                    other => panic!("{other:?} is a period"),
                };
                assert!((period.as_secs_f64() - seconds).abs() < 1e-9, "{period:?} instead of {seconds} s");
            }
            Ok(()) => assert_eq!(value, ParameterValue::Bool(after.state == StatisticsState::Enable)),
        }
        before = after;
    }
}

/// Sets conditions. The node must accept them, or refuse them and keep the old conditions.
fn conditions(parameters: &Parameters, value: &ParameterValue) {
    let conditions = || -> Vec<Condition> {
        let expected = parameters.apply_to_expectations(&NodeExpectations::default());
        let all = expected.expectations.iter().flat_map(|all| all.conditions());
        all.filter(|(level, _)| *level == Level::Warn).map(|(_, condition)| condition.clone()).collect()
    };
    let before = conditions();
    let result = match value {
        ParameterValue::StringArray(texts) => set_undeclared("warn_unless", Arc::clone(texts)),
        other => set_undeclared("warn_unless", other.clone()),
    };
    if let Err(error) = result {
        has_no_control(&error.to_string(), "an error");
        assert_eq!(conditions(), before, "{value:?} is refused and changes the conditions");
        return;
    }
    // A condition must not change if it is printed and parsed.
    let texts: Vec<_> = conditions().iter().map(ToString::to_string).collect();
    let again = texts.iter().flat_map(|text| text.parse::<Conditions>().into_iter().flatten());
    assert!(texts.iter().any(|text| text.contains('…')) || again.eq(conditions()), "{texts:?}");
}

fn set_undeclared<T: rclrs::ParameterVariant>(name: &str, value: T) -> Result<(), ParameterValueError> {
    node().use_undeclared_parameters().set(format!("topic_statistics.{name}"), value)
}

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
