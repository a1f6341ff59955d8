// SPDX-License-Identifier: Apache-2.0

//! The conditions of `--require`.

use std::{fmt, str::FromStr, time::Instant};

use rclrs_topic_statistics::Metric;

use crate::{
    pattern::Pattern,
    row::{Figures, Row},
};

/// The conditions of one argument of `--require`.
#[derive(Clone, Debug)]
pub struct Conditions(pub Vec<Condition>);

/// `[TOPIC:] METRIC[.FIGURE] OPERATOR VALUE`.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The topics that it is about. `None` for all watched topics.
    pub topic: Option<Pattern>,
    quantity: Quantity,
    operator: Operator,
    value: f64,
    /// The quantity as the user wrote it.
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Quantity {
    Rate,
    Received,
    Lost,
    OutOfOrder,
    Publishers,
    Bytes,
    Bandwidth,
    Metric(Metric, Figure),
    /// A quantile of the last minute.
    Quantile(Metric, f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Mean,
    Minimum,
    Maximum,
    StandardDeviation,
    Count,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

impl FromStr for Conditions {
    type Err = String;

    /// Errors with the wrong word, and what is possible in its place.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut rest = text.trim_start();
        let mut conditions = vec![];
        while !rest.is_empty() {
            let (condition, after) = Condition::parse(rest)?;
            conditions.push(condition);
            rest = after.trim_start();
        }
        if conditions.is_empty() {
            return Err("there is no condition; an example is rate>=90".to_owned());
        }
        Ok(Self(conditions))
    }
}

impl Condition {
    /// Parses the condition that a text starts with. Returns it with the rest of the text.
    fn parse(text: &str) -> Result<(Self, &str), String> {
        let operator = text.find(OPERATOR_SIGNS).unwrap_or(text.len());
        // The name of a source has a colon, too, so the topic ends at the last one.
        let parts = text[..operator].rsplit_once(':');
        let parts = parts.filter(|(topic, _)| !topic.trim().contains(char::is_whitespace));
        let (mut topic, mut after) = (None, text);
        if let Some((name, _)) = parts {
            after = text[name.len() + 1..].trim_start();
            let name = name.trim();
            topic = Some(name.parse::<Pattern>().map_err(|error| format!("topic {name:?}: {error}"))?);
        }
        let (word, rest) = word(after);
        if word.is_empty() {
            return Err(format!("a metric is missing before {:?}; {}", first(rest), metrics()));
        }
        let quantity = Quantity::parse(word)?;
        let (operator, after) = Operator::parse(rest).ok_or_else(|| {
            format!("{word:?} is followed by {:?} instead of one of {OPERATORS}", first(rest))
        })?;
        let after = after.trim_start();
        let (number, rest) = after.split_at(after.find(char::is_whitespace).unwrap_or(after.len()));
        let value = number.parse().ok().filter(|value: &f64| value.is_finite());
        let value =
            value.ok_or_else(|| format!("{word:?} needs a number, such as 90 or 0.5, not {number:?}"))?;
        Ok((Self { topic, quantity, operator, value, name: word.to_owned() }, rest))
    }

    /// Returns whether the condition is about a topic.
    pub fn is_about(&self, row: &Row) -> bool {
        self.topic.as_ref().is_none_or(|topic| topic.is_match(&row.name))
    }

    /// Returns the value of the quantity in the last whole window, or of a percentile in the last minute. NaN if there is none.
    pub fn value_of(&self, row: &Row, now: Instant) -> f64 {
        let Some(window) = &row.window else { return f64::NAN };
        let known = |count: Option<u64>| count.map_or(f64::NAN, |count| count as f64);
        match self.quantity {
            Quantity::Rate => window.rate,
            Quantity::Received => known(window.received),
            Quantity::Lost => known(window.lost),
            Quantity::OutOfOrder => known(window.out_of_order),
            Quantity::Publishers => row.publisher_count.map_or(f64::NAN, |count| count as f64),
            Quantity::Bytes => known(window.bytes),
            Quantity::Bandwidth => window.bandwidth(),
            Quantity::Metric(metric, figure) => figure.of(&row.figures(metric.name())),
            Quantity::Quantile(metric, quantile) => row.quantile(metric, quantile, now),
        }
    }

    /// Returns how many samples the last minute has, and how many the percentile needs, if these are too few.
    pub fn missing_samples(&self, row: &Row, now: Instant) -> Option<(u64, u64)> {
        let Quantity::Quantile(metric, quantile) = self.quantity else { return None };
        let count = row.last_minute.distribution(metric, now).map_or(0, |distribution| distribution.count());
        let needed = (1.0 / (1.0 - quantile)).round() as u64;
        (count < needed).then_some((count, needed))
    }

    /// Returns whether a value fulfils the condition. NaN never does.
    pub fn is_fulfilled_by(&self, value: f64) -> bool {
        match self.operator {
            Operator::Less => value < self.value,
            Operator::LessOrEqual => value <= self.value,
            Operator::Greater => value > self.value,
            Operator::GreaterOrEqual => value >= self.value,
            Operator::Equal => value == self.value,
            Operator::NotEqual => !value.is_nan() && value != self.value,
        }
    }

    /// Returns the condition without its topic.
    pub fn requirement(&self) -> String {
        format!("{}{}{}", self.name, self.operator.text(), self.value)
    }

    /// Returns the quantity as the user wrote it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(topic) = &self.topic {
            write!(f, "{}: ", topic.text())?;
        }
        f.write_str(&self.requirement())
    }
}

impl Quantity {
    fn parse(word: &str) -> Result<Self, String> {
        let (name, figure) = match word.split_once('.') {
            Some((name, figure)) => (name, Some(figure)),
            None => (word, None),
        };
        let counted = match name {
            "rate" => Some(Self::Rate),
            "received" | "messages" => Some(Self::Received),
            "lost" => Some(Self::Lost),
            "out_of_order" => Some(Self::OutOfOrder),
            "publishers" => Some(Self::Publishers),
            "bytes" => Some(Self::Bytes),
            "bandwidth" => Some(Self::Bandwidth),
            _ => None,
        };
        if let Some(counted) = counted {
            return match figure {
                None => Ok(counted),
                Some(figure) => Err(format!("{name:?} is one value per window and has no figure {figure:?}")),
            };
        }
        let metric = match name {
            "age" => Some(Metric::MessageAge),
            "period" => Some(Metric::MessagePeriod),
            "gap" => Some(Metric::PublicationSeqGap),
            "silent" | "last" => Some(Metric::TimeSinceLastMessage),
            _ => Metric::OF_SUBSCRIPTIONS
                .iter()
                .copied()
                .find(|metric| metric.name() == name || metric.name().strip_suffix("_ms") == Some(name)),
        };
        let metric = metric.ok_or_else(|| format!("there is no metric {name:?}; {}", metrics()))?;
        let Some(figure) = figure else { return Ok(Self::Metric(metric, Figure::Mean)) };
        match quantile(figure) {
            Some(quantile) if metric.has_distribution() => Ok(Self::Quantile(metric, quantile)),
            Some(_) => Err(format!("{name:?} has one sample per window and no percentile {figure:?}")),
            None => Figure::parse(figure).map(|figure| Self::Metric(metric, figure)),
        }
    }
}

/// Returns the quantile of a percentile.
fn quantile(word: &str) -> Option<f64> {
    match word {
        "p50" => Some(0.5),
        "p90" => Some(0.9),
        "p99" => Some(0.99),
        "p999" | "p99.9" | "p99_9" => Some(0.999),
        _ => None,
    }
}

impl Figure {
    fn parse(word: &str) -> Result<Self, String> {
        Ok(match word {
            "mean" | "avg" | "average" => Self::Mean,
            "min" | "minimum" => Self::Minimum,
            "max" | "maximum" => Self::Maximum,
            "std" | "stddev" | "std_dev" => Self::StandardDeviation,
            "count" => Self::Count,
            _ => {
                return Err(format!(
                    "there is no figure {word:?}; it has to be one of mean, min, max, std, count, p50, p90, p99, p999"
                ))
            }
        })
    }

    fn of(self, figures: &Figures) -> f64 {
        match self {
            Self::Mean => figures.mean,
            Self::Minimum => figures.min,
            Self::Maximum => figures.max,
            Self::StandardDeviation => figures.std_dev,
            Self::Count => figures.count as f64,
        }
    }
}

const OPERATORS: &str = "< <= > >= = == !=";
/// The characters that operators begin with.
const OPERATOR_SIGNS: [char; 4] = ['<', '>', '=', '!'];

impl Operator {
    /// Parses the operator that a text starts with. Returns it with the rest of the text.
    fn parse(text: &str) -> Option<(Self, &str)> {
        // Longer ones first, because some operators start with another one.
        let all = [
            ("<=", Self::LessOrEqual),
            (">=", Self::GreaterOrEqual),
            ("==", Self::Equal),
            ("!=", Self::NotEqual),
            ("<", Self::Less),
            (">", Self::Greater),
            ("=", Self::Equal),
        ];
        all.into_iter().find_map(|(sign, operator)| Some((operator, text.strip_prefix(sign)?)))
    }

    fn text(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Equal => "=",
            Self::NotEqual => "!=",
        }
    }
}

/// Returns the word that a text starts with, and the text after it and after blanks.
fn word(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| c.is_whitespace() || c == ':' || OPERATOR_SIGNS.contains(&c))
        .unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, rest.trim_start())
}

/// Returns the first word of a text for an error message.
fn first(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or("the end")
}

/// Returns all quantities for an error message.
fn metrics() -> String {
    let names: Vec<&str> = Metric::OF_SUBSCRIPTIONS.iter().map(|metric| metric.name()).collect();
    let names = names.join(", ");
    format!(
        "it has to be one of rate, period, age, bandwidth, received, bytes, lost, out_of_order, publishers, gap, silent, {names}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::{at, row};
    use proptest::prelude::*;
    use rclrs_topic_statistics::collector::Distribution;

    fn parse(text: &str) -> Vec<Condition> {
        text.parse::<Conditions>().unwrap_or_else(|error| panic!("{text}: {error}")).0
    }

    fn values(text: &str) -> Vec<(f64, bool)> {
        let row = row("/imu", 100.0, 2);
        let values = parse(text).into_iter().map(|condition| {
            let value = condition.value_of(&row, at(100));
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
        assert!(condition.value_of(&Row::new("/imu"), at(100)).is_nan(), "no window yet");
    }

    #[test]
    fn percentiles_are_of_the_last_minute_and_need_enough_samples() {
        let mut row = row("/imu", 100.0, 0);
        let mut value = |text: &str, samples: u32, at: Instant| {
            let mut distribution = Distribution::default();
            (0..samples).for_each(|_| assert!(distribution.accept(4.0)));
            row.last_minute.add(Metric::MessageAge, &distribution, at);
            let condition = &parse(text)[0];
            let value = condition.value_of(&row, at);
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
            assert!(!condition.is_fulfilled_by(condition.value_of(&unknown, at(100))), "{text}");
        }
    }

    #[test]
    fn a_condition_can_be_about_some_topics() {
        let conditions = parse("/imu: rate > 90 camera/*:lost=0 age<1e3");
        assert_eq!(
            conditions.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["/imu: rate>90", "/camera/*: lost=0", "age<1000"]
        );
        let about = |name: &str| {
            conditions.iter().map(|condition| condition.is_about(&Row::new(name))).collect::<Vec<_>>()
        };
        assert_eq!(about("/imu"), [true, false, true]);
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
            ["/cpp_listener: rate>5", "/**:/imu: age<5", "lost=0"]
        );
    }

    #[test]
    fn errors_name_the_word_and_what_is_possible() {
        for (text, wrong, right) in [
            ("", "no condition", "rate>=90"),
            ("rte>1", "\"rte\"", "rate, period"),
            ("age.mx<1", "\"mx\"", "mean, min, max"),
            ("age.p98<1", "\"p98\"", "p50, p90, p99, p999"),
            ("silent.p99<1", "\"p99\"", "one sample per window"),
            ("band>1", "\"band\"", "bandwidth, received, bytes"),
            ("lost.max=0", "\"max\"", "one value"),
            ("rate 90", "\"90\"", "<="),
            ("rate", "\"the end\"", "<="),
            ("rate>=fast", "\"fast\"", "number"),
            ("rate>=", "\"\"", "number"),
            ("rate>=nan", "\"nan\"", "number"),
            (">=5", "\">=5\"", "metric"),
            ("a//b: rate>1", "\"a//b\"", "//"),
            ("a:b:c: rate>1", "\"a:b:c\"", "':'"),
            ("rate 90 /imu: lost=0", "\"90\"", "<="),
            ("/imu: /odom: lost=0", "\"/imu\"", "rate, period"),
            ("rate>=90 age<", "\"age\"", "number"),
        ] {
            let error = text.parse::<Conditions>().unwrap_err();
            assert!(error.contains(wrong) && error.contains(right), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = text.parse::<Conditions>();
        }

        #[test]
        fn blanks_do_not_matter(
            (metric, operator, value, blanks) in (
                prop::sample::select(vec!["rate", "age.max", "lost", "publication_seq_gap.count"]),
                prop::sample::select(vec!["<", "<=", ">", ">=", "=", "!="]),
                -1e6..1e6,
                " {0,3}",
            )
        ) {
            let tight = parse(&format!("{metric}{operator}{value}"));
            let wide = parse(&format!("{blanks}{metric}{blanks}{operator}{blanks}{value}{blanks}"));
            prop_assert_eq!(tight[0].to_string(), wide[0].to_string());
        }
    }
}
