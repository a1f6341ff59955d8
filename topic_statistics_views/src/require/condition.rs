// SPDX-License-Identifier: Apache-2.0

//! The conditions of `--require`: the library's conditions, on the rows of the monitor.

use std::{fmt, str::FromStr, time::Instant};

use topic_statistics_core::{
    condition::{self, Figure, Quantity},
    health::{Missing, Value},
    Metric,
};

use crate::{
    pattern::Pattern,
    row::{Figures, MetricFigures, Row},
};

/// The conditions of one argument of `--require`.
#[derive(Clone, Debug)]
pub struct Conditions(pub Vec<Condition>);

/// A condition about the topics that a pattern matches.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The topics that it is about. `None` for all watched topics.
    pub topic: Option<Pattern>,
    condition: condition::Condition,
}

impl FromStr for Conditions {
    type Err = String;

    /// Errors with the wrong word, its place and the words possible there.
    fn from_str(text: &str) -> Result<Self, String> {
        let conditions: condition::Conditions =
            text.parse().map_err(|error: condition::ConditionError| error.to_string())?;
        conditions.into_iter().map(Condition::new).collect::<Result<_, _>>().map(Self)
    }
}

impl Condition {
    fn new(condition: condition::Condition) -> Result<Self, String> {
        let pattern =
            |topic: &str| topic.parse::<Pattern>().map_err(|error| format!("topic {topic:?}: {error}"));
        Ok(Self { topic: condition.topic().map(pattern).transpose()?, condition })
    }

    /// Returns whether the condition is about a topic.
    pub fn is_about(&self, row: &Row) -> bool {
        self.topic.as_ref().is_none_or(|topic| topic.is_match(&row.name))
    }

    /// Returns [`value_of`] its quantity.
    pub fn value_of(&self, row: &Row, now: Instant) -> Value {
        value_of(self.condition.quantity(), row, now)
    }

    /// Returns the [`missing_samples`] of its quantity.
    pub fn missing_samples(&self, row: &Row, now: Instant) -> Option<(u64, u64)> {
        missing_samples(self.condition.quantity(), row, now)
    }

    /// Returns whether a value fulfils the condition. NaN never does.
    pub fn is_fulfilled_by(&self, value: f64) -> bool {
        self.condition.is_fulfilled_by(value)
    }

    /// Returns the condition without its topic.
    pub fn requirement(&self) -> String {
        self.condition.requirement().to_string()
    }

    /// Returns the quantity as the user wrote it.
    pub fn name(&self) -> &str {
        self.condition.name()
    }
}

/// Returns the value of a quantity in the last whole window; of a percentile, in the last minute.
pub fn value_of(quantity: Quantity, row: &Row, now: Instant) -> Value {
    let Some(window) = &row.window else { return Value::Unknown };
    let value = match quantity {
        Quantity::Rate => window.rate.into(),
        Quantity::Bandwidth => window.bandwidth().into(),
        Quantity::Received => window.received.into(),
        Quantity::Bytes => window.bytes.into(),
        Quantity::Lost => window.lost.into(),
        Quantity::OutOfOrder => window.out_of_order.into(),
        Quantity::Publishers => row.publisher_count.map(|count| count as u64).into(),
        Quantity::Metric(metric, figure) => {
            let figures = row.figures(metric.name());
            let value = match figure.quantile() {
                Some(quantile) => row.quantile(metric, quantile, now),
                None if figures.count == 0 => f64::NAN,
                None => of(figure, &figures),
            };
            match Value::from(value) {
                Value::Unknown if figures.count == 0 => Value::without_sample(
                    metric,
                    figure,
                    window.received,
                    window.unstamped,
                    window.without_clock,
                ),
                value => value,
            }
        }
        _ => Value::Unknown,
    };
    let needs_no_message = match quantity {
        Quantity::Publishers => true,
        Quantity::Metric(metric, _) => !metric.has_distribution() && metric != Metric::Frequency,
        _ => false,
    };
    // A service waits for its clients, and a client for its node: their silence is no fault.
    let counts_calls = |metric: &MetricFigures| {
        [Metric::Requests, Metric::Calls].iter().any(|count| count.name() == metric.name)
    };
    let may_be_silent = window.metrics.iter().any(counts_calls);
    match value {
        Value::Missing(Missing::Messages) if may_be_silent => Value::Unknown,
        // A source of statistics publishes no counts: in silence its windows are empty.
        Value::Unknown if window.told == Some(0) && !needs_no_message && !may_be_silent => {
            Value::Missing(Missing::Messages)
        }
        value => value,
    }
}

/// Returns how many samples the last minute has, and how many a percentile needs, if these are too few.
pub fn missing_samples(quantity: Quantity, row: &Row, now: Instant) -> Option<(u64, u64)> {
    let Quantity::Metric(metric, figure) = quantity else { return None };
    let needed = (1.0 / (1.0 - figure.quantile()?)).round() as u64;
    let count = row.last_minute.distribution(metric, now).map_or(0, |distribution| distribution.count());
    (count < needed).then_some((count, needed))
}

/// Returns a figure of a window.
fn of(figure: Figure, figures: &Figures) -> f64 {
    match figure {
        Figure::Average => figures.mean,
        Figure::Minimum => figures.min,
        Figure::Maximum => figures.max,
        Figure::StandardDeviation => figures.std_dev,
        Figure::SampleCount => figures.count as f64,
        _ => f64::NAN,
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(topic) = &self.topic {
            write!(f, "{}: ", topic.text())?;
        }
        write!(f, "{}", self.condition.requirement())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, row};
    use topic_statistics_core::collector::Distribution;

    fn parse(text: &str) -> Vec<Condition> {
        text.parse::<Conditions>().unwrap_or_else(|error| panic!("{text}: {error}")).0
    }

    fn values(text: &str) -> Vec<(f64, bool)> {
        let row = row("/imu", 100.0, 2);
        let values = parse(text).into_iter().map(|condition| {
            let value = condition.value_of(&row, at(100)).or_nan();
            (value, condition.is_fulfilled_by(value))
        });
        values.collect()
    }

    #[test]
    fn conditions_are_of_rates_counts_and_figures() {
        assert_eq!(
            values("rate>=100 lost=0 age.max<50 age.max<3 period.min == 9 received!=100 publishers=1 age.count>99"),
            [
                (100.0, true),
                (2.0, false),
                (3.5, true),
                (3.5, false),
                (9.0, true),
                (100.0, false),
                (1.0, true),
                (100.0, true)
            ]
        );
        assert_eq!(
            values("age<3 message_age.avg<=2.5 period.std>0.4 out_of_order<1"),
            values("age.mean<3 age.average<=2.5 message_period.stddev>0.4 out_of_order < 1")
        );
    }

    #[test]
    fn what_was_not_measured_fulfils_nothing() {
        for operator in ["<", "<=", ">", ">=", "=", "!="] {
            let (value, fulfilled) = values(&format!("source_to_receive{operator}0"))[0];
            assert!(value.is_nan() && !fulfilled, "{operator}");
        }
        let condition = &parse("rate>=0")[0];
        assert_eq!(condition.value_of(&Row::new("/imu"), at(100)), Value::Unknown, "no window yet");
    }

    #[test]
    fn percentiles_are_of_the_last_minute_and_need_enough_samples() {
        let mut row = row("/imu", 100.0, 0);
        let mut value = |text: &str, samples: u32, at: Instant| {
            let mut distribution = Distribution::default();
            (0..samples).for_each(|_| assert!(distribution.accept(4.0)));
            row.last_minute.add(Metric::MessageAge, &distribution, at);
            let condition = &parse(text)[0];
            let value = condition.value_of(&row, at).or_nan();
            (value, condition.is_fulfilled_by(value), condition.missing_samples(&row, at))
        };
        let (nan, is_fulfilled, missing) = value("age.p99<5", 60, at(100));
        assert!(nan.is_nan() && !is_fulfilled && missing == Some((60, 100)));
        assert_eq!(value("age.p99<5", 40, at(101)), (4.0, true, None), "the samples of both windows");
        assert_eq!(value("message_age.p50>=5", 0, at(101)), (4.0, false, None));
        assert!(value("age.p999<5", 0, at(101)).0.is_nan() && value("period.p50<5", 0, at(101)).0.is_nan());
        assert_eq!(value("age.p999<5", 900, at(101)), (4.0, true, None));
        for name in ["age.p99.9<5", "age.p99_9<5"] {
            assert_eq!(value(name, 0, at(101)).0, 4.0, "{name}");
        }
        assert!(value("age.p50<5", 0, at(300)).0.is_nan(), "three minutes later");
        assert_eq!(values("bandwidth>30000 bytes=32000"), [(32_000.0, true), (32_000.0, true)]);
        let mut unknown = row.clone();
        unknown.window.as_mut().unwrap().bytes = None;
        for text in ["bandwidth>=0", "bandwidth!=1", "bytes>=0"] {
            let condition = &parse(text)[0];
            assert!(!condition.is_fulfilled_by(condition.value_of(&unknown, at(100)).or_nan()), "{text}");
        }
    }

    #[test]
    fn a_condition_can_be_about_some_topics() {
        let conditions = parse("/imu: rate > 90 camera/*:lost=0 age<1e3");
        assert_eq!(
            conditions.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["/imu: rate>90", "/camera/*: lost=0", "/camera/*: age<1e3"]
        );
        let about = |name: &str| {
            conditions.iter().map(|condition| condition.is_about(&Row::new(name))).collect::<Vec<_>>()
        };
        assert_eq!(about("/imu"), [true, false, false]);
        assert_eq!(about("/camera/left"), [false, true, true]);
    }

    #[test]
    fn a_condition_can_be_about_a_source_of_statistics() {
        for text in ["/r1/listener:/imu: rate>5", "/r1/listener:/imu:rate>5", "r1/listener:/imu : rate > 5"] {
            let condition = &parse(text)[0];
            assert_eq!(condition.to_string(), "/r1/listener:/imu: rate>5");
            assert!(condition.is_about(&Row::new("/r1/listener:/imu")));
            assert!(!condition.is_about(&Row::new("/r2/listener:/imu")));
        }
        let conditions = parse("cpp_listener: rate>5 /**:/imu: age<5 lost=0");
        assert_eq!(
            conditions.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["/cpp_listener: rate>5", "/**:/imu: age<5", "/**:/imu: lost=0"]
        );
    }

    #[test]
    fn errors_name_the_word_and_what_is_possible() {
        for (text, wrong, right) in [
            ("rte>1", "\"rte\"", "perhaps rate is meant"),
            ("a//b: rate>1", "\"a//b\"", "//"),
            ("a:b:c:d: rate>1", "\"a:b:c:d\"", "':'"),
            (": rate>1", ":", "a topic is missing"),
        ] {
            let error = text.parse::<Conditions>().unwrap_err();
            assert!(error.contains(wrong) && error.contains(right), "{text}: {error}");
        }
    }
}
