// SPDX-License-Identifier: Apache-2.0

use proptest::prelude::*;

use super::*;
use crate::metric::Metric;

fn parse(text: &str) -> Vec<Condition> {
    text.parse::<Conditions>().unwrap_or_else(|error| panic!("{text}: {error}")).0
}

/// Returns the lowest and the highest expected value of a condition, in the unit of its quantity.
fn expected(text: &str) -> (f64, f64) {
    let Expected { lowest, highest } = parse(text)[0].expected;
    (lowest, highest)
}

#[test]
fn conditions_are_of_values_and_of_figures_of_metrics() {
    let quantities =
        parse("rate>1 bandwidth>1 received>1 messages>1 bytes>1 lost>1 out_of_order>1 publishers>1 age>1 age.max>1 \
               period.p99>1 gap.count>1 silent>1 duration.p99.9>1 frequency_hz>1 message_size.std>1");
    let age = |figure| Quantity::Metric(Metric::MessageAge, figure);
    assert_eq!(
        quantities
            .iter()
            .map(|condition| (condition.quantity(), condition.quantity().unit()))
            .collect::<Vec<_>>(),
        [
            (Quantity::Rate, "Hz"),
            (Quantity::Bandwidth, "bytes/s"),
            (Quantity::Received, ""),
            (Quantity::Received, ""),
            (Quantity::Bytes, "bytes"),
            (Quantity::Lost, ""),
            (Quantity::OutOfOrder, ""),
            (Quantity::Publishers, ""),
            (age(Figure::Average), "ms"),
            (age(Figure::Maximum), "ms"),
            (Quantity::Metric(Metric::MessagePeriod, Figure::P99), "ms"),
            (Quantity::Metric(Metric::PublicationSeqGap, Figure::SampleCount), ""),
            (Quantity::Metric(Metric::TimeSinceLastMessage, Figure::Average), "ms"),
            (Quantity::Metric(Metric::Duration, Figure::P99_9), "ms"),
            (Quantity::Metric(Metric::Frequency, Figure::Average), "Hz"),
            (Quantity::Metric(Metric::MessageSize, Figure::StandardDeviation), "bytes"),
        ]
    );
    for metric in Metric::ALL {
        let without_unit = metric.name().trim_end_matches("_ms");
        for name in [metric.name(), without_unit] {
            let quantity = parse(&format!("{name}<1"))[0].quantity();
            let figure = if *metric == Metric::Busy { Figure::Maximum } else { Figure::Average };
            assert_eq!(quantity, Quantity::Metric(*metric, figure), "{name}");
        }
    }
}

#[test]
fn operators_compare_with_one_number_or_a_range() {
    for (text, fulfilled, not) in [
        ("rate<90", &[89.9, -1e300][..], &[90.0, 91.0][..]),
        ("rate<=90", &[90.0], &[90.1]),
        ("rate>90", &[90.1], &[90.0]),
        ("rate>=90", &[90.0, 1e300], &[89.9]),
        ("rate=90", &[90.0], &[89.9, 90.1]),
        ("rate==90", &[90.0], &[89.9, 90.1]),
        ("rate!=90", &[89.9, 90.1], &[90.0]),
        ("rate=90..110", &[90.0, 100.0, 110.0], &[89.9, 110.1]),
        ("rate!=90..110", &[89.9, 110.1], &[90.0, 100.0, 110.0]),
        ("rate=100±10%", &[90.0, 110.0], &[89.9, 110.1]),
        ("rate=100+-10%", &[90.0, 110.0], &[89.9, 110.1]),
        ("clock_offset=-5±20%", &[-4.0, -6.0], &[-3.9, -6.1, 5.0]),
        ("callback_share.max<80%", &[79.0], &[80.0, 100.0]),
        ("callback_share=50%±10%", &[45.0, 55.0], &[44.0, 56.0]),
        ("skipped=0", &[0.0], &[1.0]),
        ("round_trip<0.05s", &[49.0], &[50.0]),
    ] {
        let condition = &parse(text)[0];
        assert!(fulfilled.iter().all(|value| condition.is_fulfilled_by(*value)), "{text}");
        assert!(!not.iter().any(|value| condition.is_fulfilled_by(*value)), "{text}");
        assert!(!condition.is_fulfilled_by(f64::NAN), "{text}");
    }
}

#[test]
fn values_are_in_the_unit_of_the_quantity() {
    for (text, value) in [
        ("age<50", 50.0),
        ("age<50ms", 50.0),
        ("age.p99<0.05s", 50.0),
        ("age.p99<1e-3s", 1.0),
        ("silent<2s", 2000.0),
        ("silent<1.5min", 90_000.0),
        ("age<1.1us", 0.0011),
        ("age<1.1µs", 0.0011), // the micro sign
        ("age<1.1μs", 0.0011), // the Greek letter
        ("age>-3ns", -3e-6),
        ("rate>1kHz", 1000.0),
        ("busy<80%", 80.0),
        ("busy<80", 80.0),
        ("rate>30Hz", 30.0),
        ("frequency_hz>30Hz", 30.0),
        ("bandwidth<1.5MB/s", 1.5e6),
        ("bandwidth<2KiB/s", 2048.0),
        ("bytes<3kB", 3000.0),
        ("message_size.max<1MiB", 1_048_576.0),
        ("age.count>5", 5.0),
    ] {
        assert_eq!(expected(text), (value, value), "{text}");
    }
    assert_eq!(expected("age=1..2s"), (1000.0, 2000.0));
    assert_eq!(expected("age=500ms..2s"), (500.0, 2000.0));
    assert_eq!(expected("age=-5..5"), (-5.0, 5.0));
    assert_eq!(expected("silent=2s±50%"), (1000.0, 3000.0));
}

#[test]
fn a_condition_is_written_as_it_was_read() {
    let conditions =
        parse(" /imu : rate = 100±10%  camera/*:lost=0 /r1/listener:/imu:age.p99<0.05s age==1e3 ");
    assert_eq!(
        conditions.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "/imu: rate=100±10%",
            "camera/*: lost=0",
            "/r1/listener:/imu: age.p99<0.05s",
            "/r1/listener:/imu: age=1e3"
        ]
    );
    let topics: Vec<_> = conditions.iter().map(Condition::topic).collect();
    let source = Some("/r1/listener:/imu");
    assert_eq!(topics, [Some("/imu"), Some("camera/*"), source, source]);
    assert_eq!((conditions[0].name(), &*conditions[0].requirement()), ("rate", "rate=100±10%"));
}

#[test]
fn a_topic_holds_up_to_the_next_one_also_when_read_again() {
    for (text, topics) in [
        ("/imu: rate>=90 age<50ms", &[Some("/imu"), Some("/imu")][..]),
        (
            "/imu: rate>=90 age<50 /scan: rate>=9 lost=0",
            &[Some("/imu"), Some("/imu"), Some("/scan"), Some("/scan")],
        ),
        ("rate>=1 /imu:age<50 gap<1", &[None, Some("/imu"), Some("/imu")]),
        ("rate>=1 age<50", &[None, None]),
        (
            "/relay:/imu (2): rate>=90 age<50 /imu (13) :lost=0",
            &[Some("/relay:/imu (2)"), Some("/relay:/imu (2)"), Some("/imu (13)")],
        ),
        ("rate>=1 call (2):duration<5", &[None, Some("call (2)")]),
        ("/planner:/points:/plan: input_to_output<50ms", &[Some("/planner:/points:/plan")]),
    ] {
        let conditions = parse(text);
        assert_eq!(conditions.iter().map(Condition::topic).collect::<Vec<_>>(), topics, "{text}");
        let written: Vec<_> = conditions.iter().map(ToString::to_string).collect();
        assert_eq!(parse(&written.join(" ")), conditions, "{text}");
        let each: Vec<_> = written.iter().flat_map(|condition| parse(condition)).collect();
        assert_eq!(each, conditions, "{text}: each condition alone");
    }
}

#[test]
fn an_error_points_at_the_wrong_word_and_says_what_is_possible() {
    for (text, wrong, right) in [
        ("", "", "rate>=90"),
        ("  ", "", "rate>=90"),
        ("rte>1", "rte", "perhaps rate is meant"),
        ("age.mx<1", "mx", "mean, min, max"),
        ("age.p98<1", "p98", "p50, p90, p99, p999"),
        ("silent.p99<1", "p99", "one sample per window"),
        ("silent.std<1", "std", "one sample per window"),
        ("clock_offset.stddev<1", "stddev", "one sample per window"),
        ("frequency_hz.std<1", "std", "one sample per window"),
        (": rate>1", ":", "a topic is missing"),
        ("/imu: age<5 : rate>1", ":", "a topic is missing"),
        ("age=1us..2", "1us..2", "needs a unit"),
        ("silent!=1s..2e3", "1s..2e3", "needs a unit"),
        ("band>1", "band", "bandwidth, received, bytes"),
        ("lost.max=0", "max", "one value"),
        ("rate 90", "90", "<="),
        ("rate", "", "<="),
        ("rate>=fast", "fast", "number"),
        ("rate>=", "", "number"),
        ("rate>=nan", "nan", "number"),
        ("rate>=1e400", "1e400", "number"),
        ("age<1e308s", "1e308s", "number"),
        (">=5", ">=5", "metric"),
        ("rate 90 /imu: lost=0", "90", "<="),
        ("/imu: /odom: lost=0", "/imu", "rate, period"),
        ("/imu (2x): lost=0", "/imu", "rate, period"),
        ("/imu (): lost=0", "/imu", "rate, period"),
        ("/a /imu (2): lost=0", "/a", "rate, period"),
        ("/imu (2) (3): lost=0", "/imu", "rate, period"),
        ("(2): /imu (2) lost=0", "/imu", "a colon is missing"),
        ("rate>=90 /i\u{202e}mu: lost=0", "/i\u{202e}mu", "control character"),
        ("rate>=90 age<", "", "number"),
        ("rate>=90 age<x lost=0", "x", "number"),
        ("age<5sec", "sec", "ns, us, µs, μs, ms, s, min"),
        ("rate>5s", "s", "Hz, kHz"),
        ("busy<5ms", "ms", "%"),
        ("bandwidth<5MB", "MB", "MB/s"),
        ("bytes<5MB/s", "MB/s", "MB, GB"),
        ("lost<5%", "%", "no unit"),
        ("age.count>5ms", "ms", "no unit"),
        ("rate=110..90", "110..90", "start"),
        ("rate=90..", "90..", "number"),
        ("rate=..90", "..90", "number"),
        ("rate>=90..110", ">=", "= or !="),
        ("rate<100±10%", "<", "= or !="),
        ("rate=100±10", "10", "±10%"),
        ("rate=100±-10%", "-10%", "from 0"),
        ("rate=100±", "100±", "±10%"),
        ("µ>5", "µ", "rate, period"),
        ("/wheel rate>=90", "/wheel", "a colon is missing after the topic \"/wheel\""),
        ("rate>=9 wheel age<5", "wheel", "a colon is missing after the topic \"wheel\""),
        ("/wheel>=90", "/wheel", "a colon is missing"),
        ("age<50 ms", "ms", "the unit \"ms\" has to follow its number without a space"),
        ("bandwidth>5 MB/s lost=0", "MB/s", "the unit \"MB/s\" has to follow"),
        ("busy<80 %", "%", "the unit \"%\" has to follow"),
        ("rte>=90", "rte", "no metric \"rte\"; perhaps rate is meant"),
        ("callback_duratoin_ms<5", "callback_duratoin_ms", "perhaps callback_duration_ms is meant"),
    ] {
        let error = text.parse::<Conditions>().unwrap_err();
        assert_eq!(&error.text()[error.place()], wrong, "{text}: {error}");
        assert!(error.to_string().contains(right), "{text}: {error}");
    }
    assert_eq!("µ=1 rte>1".parse::<Conditions>().unwrap_err().place(), 0..2, "the first error");
    let error = "rate=100±10% rat\u{1b}>1".parse::<Conditions>().unwrap_err();
    let text = error.to_string();
    assert!(text.contains(r#"there is no metric "rat\u{1b}"; perhaps rate is meant"#), "{text}");
    assert!(text.ends_with(r#"(character 14 of "rate=100±10% rat\u{1b}>1")"#), "{text}");
}

#[test]
fn an_error_repeats_at_most_255_characters_of_a_text() {
    let hostile = "\u{202e}".repeat(10_000); // each character is written as the eight characters \u{202e}
    let error = |text: String| text.parse::<Conditions>().unwrap_err().to_string().len();
    let longest = 2 * (255 * 8 + "…".len());
    assert_eq!(error(hostile.clone()), error("x".into()) - 2 + longest);
    for before in ["rate ", "rate.", "age.", "rate>", "rate>1", "rate=1..1", "rate=1±"] {
        let (long, short) = (error(format!("{before}{hostile}")), error(format!("{before}x")));
        assert!(
            (longest / 2..=short + longest).contains(&long),
            "{before}: {long} bytes, {short} with one x"
        );
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in ".{0,40}") {
        if let Err(error) = text.parse::<Conditions>() {
            let _ = (&error.text()[error.place()], error.to_string());
        }
    }

    #[test]
    fn words_in_any_order_are_read_or_pointed_at(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "rate", "age", ".p99", "lost", "<", "=", "!=", "5", "1e3", "..", "±", "10%",
                "ms", "MB/s", " ", ":", "/imu", " (2)", "µ",
            ]),
            0..8,
        )
    ) {
        let text = words.concat();
        match text.parse::<Conditions>() {
            Ok(conditions) => {
                let written = conditions.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
                prop_assert_eq!(written.parse::<Conditions>(), Ok(conditions), "{}", written);
            }
            Err(error) => drop(error.text()[error.place()].to_owned()),
        }
    }
}

#[test]
fn the_limits_are_what_fulfils_it_at_the_edge() {
    for (text, lower, upper, words) in [
        ("rate>=90", Some(90.0), None, "at least 90"),
        ("rate>90", Some(90.0), None, "above 90"),
        ("age<0.05s", None, Some(50.0), "below 50"),
        ("age<=50", None, Some(50.0), "at most 50"),
        ("rate=90..110", Some(90.0), Some(110.0), "90 to 110"),
        ("rate=0.3±10%", Some(0.27), Some(0.33), "0.27 to 0.33"),
        ("lost=0", Some(0.0), Some(0.0), "0"),
        ("lost!=0", None, None, "not 0"),
        ("rate!=1..2", None, None, "not 1 to 2"),
    ] {
        let Conditions(conditions) = text.parse().unwrap();
        let rounded = |limit: Option<f64>| limit.map(|limit| (limit * 1e9).round() / 1e9);
        let limits = (rounded(conditions[0].lower_limit()), rounded(conditions[0].upper_limit()));
        assert_eq!((limits, conditions[0].expectation()), ((lower, upper), words.to_owned()), "{text}");
    }
}

#[test]
fn a_range_fulfils_it_or_not_or_does_not_say() {
    for (text, fulfils, violates, unknown) in [
        ("rate>=90", (90.0, 95.0), (0.0, 89.9), (89.0, 91.0)),
        ("rate>90", (90.1, 95.0), (0.0, 90.0), (90.0, 91.0)),
        ("age<50", (0.0, 49.0), (50.0, f64::INFINITY), (49.0, 50.0)),
        ("age<=50", (0.0, 50.0), (50.1, 60.0), (50.0, 51.0)),
        ("rate=90..110", (90.0, 110.0), (111.0, 200.0), (80.0, 120.0)),
        ("rate=90..110", (95.0, 96.0), (0.0, 89.0), (f64::NAN, 100.0)),
        ("rate!=90..110", (0.0, 89.0), (90.0, 110.0), (80.0, 95.0)),
        ("rate!=90..110", (111.0, 120.0), (95.0, 96.0), (95.0, 120.0)),
    ] {
        let Conditions(conditions) = text.parse().unwrap();
        let all = |(lowest, highest)| conditions[0].is_fulfilled_by_all(lowest, highest);
        assert_eq!((all(fulfils), all(violates), all(unknown)), (Some(true), Some(false), None), "{text}");
    }
}

#[test]
fn figures_are_four_and_without_zeros_at_the_end() {
    for (value, text) in [
        (41.23, "41.23"),
        (100.0, "100"),
        (0.0, "0"),
        (0.27, "0.27"),
        (12_345.6, "12346"),
        (-1.5, "-1.5"),
        (f64::NAN, "-"),
        (f64::INFINITY, "inf"),
        (1.0e-7, "1.000e-7"),
        (0.299_999, "0.3"),
    ] {
        assert_eq!(super::Figures(value).to_string(), text);
    }
}
