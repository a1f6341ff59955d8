// SPDX-License-Identifier: Apache-2.0

//! The conditions of `--require`: conditions of the library, evaluated on the rows of a program.

use std::{fmt, str::FromStr, time::Instant};

use topic_statistics_core::{
    condition::{self, Quantity},
    health::{Missing, Value},
    Metric,
};

use crate::{
    pattern::Pattern,
    row::{MetricFigures, Row},
};

/// The conditions of one argument of `--require`.
#[derive(Clone, Debug)]
pub struct Conditions(pub Vec<Condition>);

#[derive(Clone, Debug)]
pub struct Condition {
    /// The topics that the condition is about. `None` for all watched topics.
    pub topic: Option<Pattern>,
    condition: condition::Condition,
}

impl FromStr for Conditions {
    type Err = String;

    /// Errors if the text is wrong. The error names the wrong word, its place, and the words that are possible there.
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

    pub fn is_about(&self, row: &Row) -> bool {
        self.topic.as_ref().is_none_or(|topic| topic.is_match(&row.name))
    }

    pub fn value_of(&self, row: &Row, now: Instant) -> Value {
        value_of(self.condition.quantity(), row, now)
    }

    /// Returns how many samples the last minute has, and how many samples a percentile needs. `None` if the last minute
    /// has enough samples, or if the quantity is not a percentile.
    pub fn missing_samples(&self, row: &Row, now: Instant) -> Option<(u64, u64)> {
        let Quantity::Metric(metric, figure) = self.condition.quantity() else { return None };
        let needed = (1.0 / (1.0 - figure.quantile()?)).round() as u64;
        let count = row.last_minute.distribution(metric, now).map_or(0, |distribution| distribution.count());
        (count < needed).then_some((count, needed))
    }

    /// Returns whether a value fulfils the condition. NaN never does.
    pub fn is_fulfilled_by(&self, value: f64) -> bool {
        self.condition.is_fulfilled_by(value)
    }

    pub fn requirement(&self) -> String {
        self.condition.requirement().to_string()
    }

    /// Returns the quantity as the user wrote it.
    pub fn name(&self) -> &str {
        self.condition.name()
    }
}

/// Returns the value of a quantity in the last whole window. For a percentile, returns the value in the last minute.
pub fn value_of(quantity: Quantity, row: &Row, now: Instant) -> Value {
    let Some(window) = &row.window else { return Value::Unknown };
    if window.has_only_losses && !matches!(quantity, Quantity::Lost | Quantity::OutOfOrder) {
        return Value::Unknown;
    }
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
                None if figures.sample_count == 0 => f64::NAN,
                None => figure.read(&figures),
            };
            match Value::from(value) {
                Value::Unknown if figures.sample_count == 0 => Value::without_sample(
                    metric,
                    figure,
                    window.received,
                    [window.unstamped, window.without_clock, window.other_clock],
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
    // A service is silent until a client calls it, and a client is silent until its node calls. So the silence of a
    // service or a client is no fault.
    let counts_calls = |metric: &MetricFigures| {
        [Metric::Requests, Metric::Calls].iter().any(|count| count.name() == metric.name)
    };
    let may_be_silent = window.metrics.iter().any(counts_calls);
    match value {
        Value::Missing(Missing::Messages) if may_be_silent => Value::Unknown,
        // A source of statistics does not publish its number of messages. But `inferred`, a number that is derived from
        // the metrics of the source, shows that this window had no messages.
        Value::Unknown if window.inferred == Some(0) && !needs_no_message && !may_be_silent => {
            Value::Missing(Missing::Messages)
        }
        value => value,
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
    use crate::testing::{at, distribution, row};

    fn parse(text: &str) -> Vec<Condition> {
        text.parse::<Conditions>().unwrap_or_else(|error| panic!("{text}: {error}")).0
    }

    fn value(text: &str, row: &Row, seconds: i64) -> (f64, bool) {
        let condition = &parse(text)[0];
        let value = condition.value_of(row, at(seconds)).or_nan();
        (value, condition.is_fulfilled_by(value))
    }

    #[test]
    fn conditions_are_of_rates_counts_and_figures() {
        let imu = row("/imu", 100.0, 2);
        for (text, expected, is_fulfilled) in [
            ("rate>=100", 100.0, true),
            ("lost=0", 2.0, false),
            ("age.max<50", 3.5, true),
            ("age.max<3", 3.5, false),
            ("age<3", 2.5, true),
            ("message_age.avg<=2.5", 2.5, true),
            ("period.min == 9", 9.0, true),
            ("period.std>0.4", 0.5, true),
            ("received!=100", 100.0, false),
            ("publishers=1", 1.0, true),
            ("age.count>99", 100.0, true),
            ("out_of_order < 1", 0.0, true),
            ("bandwidth>30000", 32_000.0, true),
            ("bytes=32000", 32_000.0, true),
        ] {
            assert_eq!(value(text, &imu, 100), (expected, is_fulfilled), "{text}");
        }
        let mut unknown = imu.clone();
        unknown.window.as_mut().unwrap().bytes = None;
        for text in
            ["bandwidth>=0", "bandwidth!=1", "bytes>=0", "source_to_receive<0", "source_to_receive!=0"]
        {
            let (value, is_fulfilled) = value(text, &unknown, 100);
            assert!(value.is_nan() && !is_fulfilled, "not measured: {text}");
        }
        for (unstamped, other_clock, expected) in [
            (false, false, Value::Unknown),
            (true, false, Value::Missing(Missing::HeaderStamps)),
            (false, true, Value::Missing(Missing::OtherClock)),
        ] {
            let mut row = imu.clone();
            let window = row.window.as_mut().unwrap();
            window.metrics.clear();
            (window.unstamped, window.other_clock) = (unstamped, other_clock);
            let values = ["age<50", "rate>1"].map(|text| parse(text)[0].value_of(&row, at(100)));
            assert_eq!(values, [expected, Value::Measured(100.0)]);
        }
        let none = parse("rate>=0")[0].value_of(&Row::new("/imu"), at(100));
        assert_eq!(none, Value::Unknown, "the row has no window yet");
    }

    #[test]
    fn percentiles_are_of_the_last_minute_and_need_enough_samples() {
        let mut imu = row("/imu", 100.0, 0);
        let add = |row: &mut Row, samples: usize, seconds| {
            row.last_minute.add(Metric::MessageAge, &distribution(&vec![4.0; samples]), at(seconds));
        };
        add(&mut imu, 60, 100);
        let p99 = &parse("age.p99<5")[0];
        assert!(value("age.p99<5", &imu, 100).0.is_nan());
        assert_eq!(p99.missing_samples(&imu, at(100)), Some((60, 100)));
        add(&mut imu, 40, 101);
        assert_eq!(p99.missing_samples(&imu, at(101)), None, "the samples of both windows count");
        assert_eq!(value("age.p99<5", &imu, 101), (4.0, true));
        assert_eq!(value("message_age.p50>=5", &imu, 101), (4.0, false));
        assert!(value("age.p999<5", &imu, 101).0.is_nan() && value("period.p50<5", &imu, 101).0.is_nan());
        add(&mut imu, 900, 101);
        for text in ["age.p999<5", "age.p99.9<5", "age.p99_9<5"] {
            assert_eq!(value(text, &imu, 101), (4.0, true), "{text}");
        }
        assert!(value("age.p50<5", &imu, 300).0.is_nan(), "three minutes later");
    }

    #[test]
    fn conditions_are_about_topics_and_sources() {
        let text =
            "/imu: rate > 90 camera/*:lost=0 age<1e3 r1/listener:/imu : rate > 5 cpp_listener: rate>5 \
                    /**:/imu: age<5 lost=0";
        let conditions = parse(text);
        let texts: Vec<String> = conditions.iter().map(ToString::to_string).collect();
        let expected = "/imu: rate>90,/camera/*: lost=0,/camera/*: age<1e3,/r1/listener:/imu: rate>5,\
                        /cpp_listener: rate>5,/**:/imu: age<5,/**:/imu: lost=0";
        assert_eq!(texts.join(","), expected);
        for (name, about) in [
            ("/imu", &[0][..]),
            ("/camera/left", &[1, 2]),
            ("/r1/listener:/imu", &[3, 5, 6]),
            ("/r2/listener:/imu", &[5, 6]),
        ] {
            let is_about = |index: &usize| conditions[*index].is_about(&Row::new(name));
            assert_eq!((0..conditions.len()).filter(is_about).collect::<Vec<_>>(), about, "{name}");
        }
        assert_eq!(parse("/r1/listener:/imu:rate>5")[0].to_string(), "/r1/listener:/imu: rate>5");
    }

    #[test]
    fn errors_name_the_word_and_what_is_possible() {
        for (text, wrong, right) in [
            ("rte>1", "\"rte\"", "perhaps rate is meant"),
            ("age.mx<5", "", "it has to be one of mean, min, max, std, count"),
            ("rate>=fast", "\"fast\"", "number, such as 90 or 0.5"),
            ("a//b: rate>1", "\"a//b\"", "//"),
            ("a:b:c:d: rate>1", "\"a:b:c:d\"", "':'"),
            (": rate>1", ":", "a topic is missing"),
        ] {
            let error = text.parse::<Conditions>().unwrap_err();
            assert!(error.contains(wrong) && error.contains(right), "{text}: {error}");
        }
    }
}
