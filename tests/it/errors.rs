// SPDX-License-Identifier: Apache-2.0

//! What cannot be created, what cannot be measured, and the page that explains each message.

use std::{error::Error, fs, path::Path, time::Duration};

use rclrs::*;
use rclrs_topic_statistics::{
    health::{Cause, Expectations},
    IntoMeasuredOptions, Metric, NodeStatistics, NodeStatisticsOptions, SourceName, StatisticsError,
    TopicStatisticsOptions,
};
use ros_env::{sensor_msgs::msg::rmw::Imu, std_msgs::msg::String as Text};
use rosidl_runtime_rs::{Message, RmwMessage, Sequence, SequenceAlloc};
use test_support::{collect, middleware, node, shares_its_process, wait_for, warnings, Spinning};

use crate::support::{every, samples, wait_for_subscriptions, warnings_of};

#[test]
fn what_cannot_be_created_is_named_with_the_reason_and_leaves_nothing() {
    for (parameter, reason) in [
        ("publish_period:=0.0", "A publish period of 0 s is not possible"),
        ("publish_period:=.nan", "NaN s is not possible"),
        ("publish_period:=soon", "is a number of seconds, like 1.0"),
        ("enabled:=7", "it has to be true or false"),
        ("distributions:=7", "it has to be true or false"),
        ("publish_topic:=7", "it has to be a topic name"),
        ("publish_topic:=no topic", "a topic name has letters"),
        ("warn_unless:=['rate>=fast']", "(character 7 of \"rate>=fast\")"),
        ("error_unless:=rate>=90", "it has to be a list of strings"),
    ] {
        let parameter = format!("topic_statistics.{parameter}");
        let (_executor, node) = node("failing", &["--ros-args", "-p", &parameter]);
        let error = NodeStatistics::new(&node).unwrap_err();
        assert!(error.to_string().contains(reason) && error.to_string().contains("/failing"), "{error}");
        match error {
            StatisticsError::InvalidParameter { name, .. } => assert!(parameter.starts_with(name), "{name}"),
            StatisticsError::CreatePublisher { topic, .. } => assert_eq!(topic, "no topic"),
            other => panic!("{other:?}"),
        }
        let names = node.get_topic_names_and_types().unwrap();
        assert!(!["/statistics", "/diagnostics"].iter().any(|topic| names.contains_key(*topic)), "{names:?}");
    }

    let (_executor, node) = node("failing", &[]);
    let own = TopicStatisticsOptions::new;
    let directory = tempfile::tempdir().unwrap();
    let file = |path: &Path| NodeStatisticsOptions::new().totals_file(path);
    for (options, reason) in [
        (own().publish_topic("1st").into(), "The publisher on \"1st\" could not be created"),
        (
            file(&directory.path().join("missing/totals.yaml")),
            "The totals of the node \"/failing\" cannot be written",
        ),
        (file(directory.path()), "The totals of the node \"/failing\" cannot be written"),
        (file(Path::new("")), "The totals of the node \"/failing\" cannot be written"),
        (NodeStatisticsOptions::new().max_event_rate(-1.0), "A maximal event rate of -1 Hz"),
        (every(0).into(), "A publish period of 0ns is not possible"),
    ] {
        let error = NodeStatistics::with_options(&node, options).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!(node.count_publishers("/statistics").unwrap(), 0, "{error}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "no file is created");

    // After these errors the parameters can be declared.
    let statistics = NodeStatistics::new(&node).unwrap();
    assert!(statistics.set_publish_period(DAY + Duration::from_nanos(1)).is_err());
    statistics.set_publish_period(DAY).unwrap();
    for name in ["", "1st topic", "imu/"] {
        let error = statistics.create_subscription(name, |_: Text| ()).unwrap_err();
        let is_it = matches!(&error, StatisticsError::CreateSubscription { topic, .. } if topic == name);
        assert!(
            is_it && error.to_string().contains(&format!("{name:?}")) && error.source().is_some(),
            "{error}"
        );
    }
    let expect =
        |conditions: &str| own().expect(Expectations::new().warn_unless(conditions.parse().unwrap()));
    let subscribe =
        |options| statistics.create_subscription("out".topic_statistics(options), |_: Text| ()).err();
    let dynamic = "out".topic_statistics(expect("age<5"));
    let text = "std_msgs/msg/String".try_into().unwrap();
    for (error, reason) in [
        (subscribe(every(0)), "A publish period of 0ns"),
        (subscribe(own().publish_topic("not valid")), "The publisher on \"not valid\""),
        (
            subscribe(own().source_name(SourceName::Custom(String::new()))),
            "The source name of statistics is empty",
        ),
        (subscribe(expect("age<5")), "std_msgs/msg/String has no header stamp"),
        (
            statistics.create_dynamic_subscription(text, dynamic, |_, _| ()).err(),
            "std_msgs/msg/String has no header",
        ),
        (
            statistics.create_publisher::<Text>("out".topic_statistics(expect("lost=0"))).err(),
            "does not know what is lost",
        ),
    ] {
        let error = error.unwrap().to_string();
        assert!(error.contains(reason), "{error}");
    }
    wait_for("publisher in the graph", || node.count_publishers("/statistics").unwrap() == 1);
    let names = node.get_topic_names_and_types().unwrap();
    assert!(!names.contains_key("/out") && !names.contains_key("/diagnostics"), "{names:?}");
}

/// The longest window.
const DAY: Duration = Duration::from_secs(86_400);

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
    if shares_its_process() {
        return;
    }
    warnings::collect();
    let (executor, node) = node("unequipped", &[]);
    // The type may have a header: its expectation is unknown, and no reason not to start.
    let expected = "age<100ms header_to_callback<100ms".parse().unwrap();
    let expected = Expectations::new().warn_unless(expected).raise_after(1);
    let options = every(100).metrics(Metric::OF_SUBSCRIPTIONS).expect(expected);
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let imu = statistics.create_subscription("imu".keep_last(100), |_: Uninstalled| ()).unwrap();
    let warning =
        "The ages of uninstalled_msgs/msg/Imu messages will be NaN, also if they have a header stamp: \
                   their introspection type support";
    assert_eq!(warnings_of(warning), 1, "{:#?}", warnings::so_far());
    let windows = collect(imu.watch());
    let talker = node.create_publisher::<Uninstalled>("imu".keep_last(100)).unwrap();
    let _spinning = Spinning::start(executor);
    wait_for_subscriptions(&talker, 1);
    (0..10).for_each(|_| talker.publish(Uninstalled::default()).unwrap());
    wait_for("all messages in windows", || samples(&windows, Metric::CallbackDuration) == 10);
    let is = |lacks: bool| if lacks { 0 } else { 10 };
    let reception = is(middleware::lacks_reception_timestamps("delays of a type without introspection"));
    let numbers = is(middleware::lacks_sequence_numbers("gaps of a type without introspection"));
    for (metric, count) in [
        (Metric::SourceToCallback, 10),
        (Metric::SourceToReceive, reception),
        (Metric::PublicationSeqGap, numbers.min(9)),
        (Metric::MessageAge, 0),
        (Metric::HeaderToSource, 0),
        (Metric::HeaderToCallback, 0),
    ] {
        assert_eq!(samples(&windows, metric), count, "{metric}");
    }
    assert!(windows.lock().unwrap().iter().all(|window| !window.unstamped), "its stamps are not known");
    wait_for("judged windows", || imu.health().borrow().cause == Cause::AsExpected);
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
