// SPDX-License-Identifier: Apache-2.0

//! Faults that the library logs as warnings, and invalid options.

use std::{fs, path::Path};

use rclrs::*;
use rclrs_topic_statistics::{
    health::{Cause, Expectations},
    IntoMeasuredOptions, Metric, NodeStatistics, NodeStatisticsOptions, StatisticsError,
    TopicStatisticsOptions,
};
use ros_env::sensor_msgs::msg::rmw::Imu;
use rosidl_runtime_rs::{Message, RmwMessage, Sequence, SequenceAlloc};
use test_support::{
    domain, in_a_process_of_its_own, middleware, node, wait_for, warnings, Program, Spinning,
};

/// `sensor_msgs/Imu` in a package whose introspection library is not installed.
#[derive(Clone, Debug, Default, PartialEq, PartialOrd)]
#[repr(transparent)]
struct Uninstalled(Imu);

impl Message for Uninstalled {
    type RmwMsg = Self;

    fn into_rmw_message(message: std::borrow::Cow<'_, Self>) -> std::borrow::Cow<'_, Self> {
        message
    }

    fn from_rmw_message(message: Self) -> Self {
        message
    }
}

impl RmwMessage for Uninstalled {
    const TYPE_NAME: &'static str = "uninstalled_msgs/msg/Imu";

    fn get_type_support() -> *const std::ffi::c_void {
        Imu::get_type_support()
    }
}

impl SequenceAlloc for Uninstalled {
    fn sequence_init(_: &mut Sequence<Self>, _: usize) -> bool {
        false
    }

    fn sequence_fini(_: &mut Sequence<Self>) {}

    fn sequence_copy(_: &Sequence<Self>, _: &mut Sequence<Self>) -> bool {
        false
    }
}

#[test]
fn a_type_without_an_introspection_library_has_all_metrics_except_ages() {
    in_a_process_of_its_own(|| {
        warnings::collect();
        let domain = domain();
        let (executor, node) = node("unequipped", &[]);
        let statistics = NodeStatistics::with_options(
            &node,
            TopicStatisticsOptions::new().metrics(Metric::OF_SUBSCRIPTIONS),
        )
        .unwrap();
        // The type may have a header: its expectation is unknown, and no reason not to start.
        let ages = "age<100ms header_to_callback<100ms".parse().unwrap();
        let expected =
            TopicStatisticsOptions::new().expect(Expectations::new().warn_unless(ages).raise_after(1));
        let imu = statistics
            .create_subscription("imu".keep_last(10).topic_statistics(expected), |message: Uninstalled| {
                assert_eq!(message.0.header.frame_id.to_string(), "imu_link");
            })
            .unwrap();
        let warnings = warnings::so_far();
        assert!(
            warnings.iter().any(|warning| warning.starts_with(
                "The ages of uninstalled_msgs/msg/Imu messages will be NaN, also if they have a header stamp: their introspection type support"
            )),
            "{warnings:#?}"
        );
        let _spinning = Spinning::start(executor);
        let _publisher = Program::start("publisher.py", &["--rate", "50"], domain);
        let mut latest = None;
        wait_for("window with messages", || {
            latest = imu.latest();
            latest.as_ref().is_some_and(|window| window.get(Metric::MessagePeriod).unwrap().sample_count > 10)
        });
        let latest = latest.unwrap();
        let count = |metric| latest.get(metric).unwrap().sample_count;
        assert!(count(Metric::SourceToCallback) > 10);
        assert!(
            middleware::lacks_reception_timestamps("delays of a type without introspection")
                || count(Metric::SourceToReceive) > 10
        );
        assert!(
            middleware::lacks_sequence_numbers("gaps of a type without introspection")
                || count(Metric::PublicationSeqGap) > 10
        );
        for metric in [Metric::MessageAge, Metric::HeaderToSource, Metric::HeaderToCallback] {
            let summary = latest.get(metric).unwrap();
            assert!(summary.sample_count == 0 && summary.average.is_nan(), "{metric:?}: {summary:?}");
        }
        assert!(!latest.unstamped, "its stamps are not known");
        let received = imu.totals().received;
        wait_for("judged windows", || {
            imu.totals().received > received + 100 && imu.health().borrow().cause == Cause::AsExpected
        });
    });
}

#[test]
fn invalid_options_are_errors_with_the_value_and_create_nothing() {
    let (_executor, node) = node("mistaken", &[]);
    let error = |options: NodeStatisticsOptions| {
        let error = NodeStatistics::with_options(&node, options).err().unwrap();
        assert_eq!(node.count_publishers("/statistics").unwrap(), 0, "{error}");
        error
    };
    for rate in [-1.0, f64::NAN, f64::INFINITY, 1e-9, 1001.0] {
        let error = error(NodeStatisticsOptions::new().max_event_rate(rate));
        assert!(matches!(error, StatisticsError::InvalidEventRate { .. }), "{error}");
        assert!(error.to_string().starts_with(&format!("A maximal event rate of {rate} Hz")), "{error}");
    }
    let metrics = TopicStatisticsOptions::new().metrics([Metric::MessageAge, Metric::Frequency]);
    assert_eq!(
        error(metrics.into()).to_string().split(": ").next(),
        Some("A subscription has no metric \"frequency_hz\"")
    );
    let directory = tempfile::tempdir().unwrap();
    let nowhere = directory.path().join("missing/totals.yaml");
    for path in [nowhere.as_path(), directory.path(), std::path::Path::new("")] {
        let error = error(NodeStatisticsOptions::new().totals_file(path));
        assert!(
            matches!(&error, StatisticsError::TotalsFile { path: reported, .. } if reported == path),
            "{error}"
        );
        assert!(
            error.to_string().starts_with("The totals of the node \"/mistaken\" cannot be written"),
            "{error}"
        );
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "no file is created");
}

#[test]
fn a_totals_file_that_can_no_longer_be_written_is_logged() {
    in_a_process_of_its_own(|| {
        warnings::collect();
        let (_executor, node) = node("late", &[]);
        let directory = tempfile::tempdir().unwrap();
        let options = NodeStatisticsOptions::new().totals_file(directory.path().join("totals.yaml"));
        let statistics = NodeStatistics::with_options(&node, options).unwrap();
        drop(directory);
        drop(statistics);
        // The thread that writes it may still run: the wait for its end has a limit.
        wait_for("warning", || {
            let is_it =
                |line: &String| line.starts_with("The totals of the node \"/late\" cannot be written");
            warnings::so_far().iter().any(is_it)
        });
    });
}

#[test]
fn every_message_of_the_library_is_explained() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(project.join("docs/errors.md")).unwrap();
    // The code in the first column of the tables, in which `...` stands for anything.
    let cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let explained: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();

    let error = fs::read_to_string(project.join("src/error.rs")).unwrap();
    let enumeration =
        error.split("pub enum StatisticsError {\n").nth(1).unwrap().split("\n}\n").next().unwrap();
    let variants = enumeration.lines().filter_map(|line| line.strip_prefix("    "));
    let variants = variants.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
    let variants: Vec<_> = variants.map(|line| line.trim_end_matches([' ', '{', ','])).collect();
    assert!(variants.contains(&"SpawnThread"), "{variants:?}");
    for variant in variants {
        assert!(explained.contains(&variant), "docs/errors.md has no row for StatisticsError::{variant}");
    }

    let mut messages = vec![];
    add_messages(&project.join("src"), &mut messages);
    let build_script = fs::read_to_string(project.join("build.rs")).unwrap();
    messages.extend(build_script.split("cargo::error=").skip(1).map(without_values));
    assert!(messages.iter().any(|message| message.starts_with("The ages of ... messages")), "{messages:?}");
    let is_explained = |message: &str| {
        explained.iter().any(|pattern| {
            let mut rest = Some(message);
            for part in pattern.split("...") {
                rest = rest.and_then(|rest| Some(rest.split_once(part)?.1));
            }
            rest.is_some() && pattern.contains(' ')
        })
    };
    messages.retain(|message| !is_explained(message));
    assert!(messages.is_empty(), "docs/errors.md has no row for {messages:#?}");
}

/// Adds what the library's code formats into sentences, with `...` for each value: the texts of its log, and the
/// reasons for which it refuses a parameter.
fn add_messages(directory: &Path, messages: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_messages(&path, messages);
        } else if path.file_name().unwrap() != "tests.rs" {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            let is_code = |line: &&str| !line.trim_start().starts_with("//");
            let code = code.lines().filter(is_code).collect::<Vec<_>>().join("\n");
            for call in ["format!(", "write!(f,"] {
                let literals =
                    code.split(call).skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"'));
                messages.extend(literals.map(without_values).filter(|text| is_sentence(text)));
            }
        }
    }
}

/// Returns the string literal at the start of `code`, with `...` for each value.
fn without_values(code: &str) -> String {
    let end = code.match_indices('"').find(|(index, _)| !code[..*index].ends_with('\\')).unwrap().0;
    let lines = code[..end].split("\\\n").map(str::trim_start);
    let literal = lines.collect::<String>();
    let mut parts = literal.split('{');
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| format!("{text}...{}", part.split_once('}').unwrap_or(("", part)).1))
}

fn is_sentence(text: &str) -> bool {
    let words = text.split(|c: char| !c.is_ascii_lowercase()).filter(|word| word.len() > 1);
    text.starts_with(|c: char| c.is_ascii_uppercase() || c == '.') && words.count() >= 4
}
