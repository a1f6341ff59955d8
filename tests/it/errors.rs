// SPDX-License-Identifier: Apache-2.0

//! Failed creations and metrics that cannot be measured. The page docs/errors.md explains each message.

use std::{error::Error, fs, path::Path};

use ros_env::sensor_msgs::msg::rmw;
use rosidl_runtime_rs::{Message, RmwMessage, Sequence, SequenceAlloc};

use crate::support::*;

#[test]
fn a_failed_creation_has_a_reason_and_leaves_nothing() {
    for (parameter, reason) in [
        ("publish_period:=0.0", "A publish period of 0 s is not possible"),
        ("enabled:=7", "it has to be true or false"),
        ("distributions:=7", "it has to be true or false"),
        ("publish_topic:=7", "it has to be a topic name"),
        ("publish_topic:=no topic", "a name has letters"),
        ("warn_unless:=['rate>=fast']", "(character 7 of \"rate>=fast\")"),
        ("error_unless:=rate>=90", "it has to be a list of strings"),
    ] {
        let parameter = format!("topic_statistics.{parameter}");
        let (_executor, node) = node("failing", &["--ros-args", "-p", &parameter]);
        let error = NodeStatistics::new(&node).unwrap_err();
        assert!(error.to_string().contains(reason) && error.to_string().contains("/failing"), "{error}");
        match error {
            StatisticsError::InvalidParameter { name, .. } => assert!(parameter.starts_with(name), "{name}"),
            StatisticsError::Create { kind, name, .. } => {
                assert_eq!((kind, name.as_str()), (SourceKind::Publisher, "no topic"))
            }
            other => panic!("{other:?}"),
        }
        let names = node.get_topic_names_and_types().unwrap();
        assert!(!["/statistics", "/diagnostics"].iter().any(|topic| names.contains_key(*topic)), "{names:?}");
    }

    let (_executor, node) = node("failing", &[]);
    let own = StatisticsOptions::new;
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing/totals.yaml");
    let file = |path: &Path| NodeStatisticsOptions::new().totals_file(path);
    let not_written = "The totals of the node \"/failing\" cannot be written";
    for (options, reason) in [
        (own().publish_topic("1st").into(), "The publisher \"1st\" could not be created"),
        (
            file(&directory.path().join("totals.yaml")).statistics(own().publish_topic("1st")),
            "The publisher \"1st\" could not be created",
        ),
        (file(&missing), not_written),
        (file(directory.path()), not_written),
        (file(Path::new("")), not_written),
    ] {
        let error = NodeStatistics::with_options(&node, options).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "no file is created");
    assert_eq!(node.count_publishers("/statistics").unwrap(), 0);

    // The failed creations above must not leave their parameters declared.
    let statistics = NodeStatistics::new(&node).unwrap();
    assert!(statistics.set_publish_period(Duration::from_secs(86_401)).is_err());
    let expect =
        |conditions: &str| own().expect(Expectations::new().warn_unless(conditions.parse().unwrap()));
    let subscribe =
        |options| statistics.create_subscription("out".statistics(options), |_: Text| ()).unwrap_err();
    let dynamic = "out".statistics(expect("age<5"));
    let text = "std_msgs/msg/String".try_into().unwrap();
    let no_header = "std_msgs/msg/String has no header stamp";
    for (error, reason) in [
        (subscribe(every(0)), "A publish period of 0ns"),
        (subscribe(own().publish_topic("not valid")), "The publisher \"not valid\""),
        (subscribe(expect("age<5")), no_header),
        (statistics.create_dynamic_subscription(text, dynamic, |_, _| ()).unwrap_err(), no_header),
    ] {
        assert!(error.to_string().contains(reason), "{error}");
    }
    for name in ["", "1st topic", "imu/"] {
        let error = statistics.create_subscription(name, |_: Text| ()).unwrap_err();
        assert!(error.to_string().contains(&format!("{name:?}")) && error.source().is_some(), "{error}");
        assert!(
            matches!(error, StatisticsError::Create { kind: SourceKind::Subscription, name: given, .. } if given == name)
        );
    }
    let loaned = |_: ReadOnlyLoanedMessage<Text>| ();
    let loaned = statistics.create_subscription("loaned", loaned).unwrap();
    let error = loaned.set_callback(|_: Text| ()).unwrap_err();
    assert!(matches!(&error, StatisticsError::CallbackForm { topic } if topic == "/loaned"), "{error}");
    wait_for("publisher in the graph", || node.count_publishers("/statistics").unwrap() == 1);
    let names = node.get_topic_names_and_types().unwrap();
    assert!(!names.contains_key("/out") && !names.contains_key("/diagnostics"), "{names:?}");
}

/// `sensor_msgs/Imu` in a package whose introspection library is not installed.
#[derive(Clone, Debug, Default, PartialEq, PartialOrd)]
#[repr(transparent)]
struct Uninstalled(rmw::Imu);

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
        rmw::Imu::get_type_support()
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
fn own_conditions_with_another_name_are_warned_of() {
    if shares_its_process() {
        return;
    }
    warnings::collect();
    let (_executor, _node, statistics) = measured("misspelled", StatisticsOptions::new());
    let conditions = "rate>1 imu: rate>2 /imu: rate>3 /misspelled:/imu: rate>4 /imuu: rate>5 tick: rate>6";
    let expected =
        StatisticsOptions::new().expect(Expectations::new().warn_unless(conditions.parse().unwrap()));
    let _imu = statistics.create_subscription("imu".statistics(expected), |_: Imu| ()).unwrap();
    let warned: Vec<_> =
        warnings::so_far().into_iter().filter(|text| text.contains("is not judged")).collect();
    let because = |name| format!("is not judged: it is in the options of {name}, which has another name");
    let imu = because("/misspelled:/imu");
    assert_eq!(warned.len(), 2, "{warned:#?}");
    assert!(warned[0].contains(&format!("/imuu: rate>5 {imu}")), "{warned:#?}");
    assert!(warned[1].contains(&format!("tick: rate>6 {imu}")), "{warned:#?}");

    let tick = Expectations::new().warn_unless("tick: rate>6 tock: rate>7".parse().unwrap());
    let options =
        StatisticsOptions::new().expect(tick).source_name(SourceName::Custom("/misspelled:tick".to_owned()));
    let _timer =
        statistics.create_timer_repeating(Duration::from_secs(1).statistics(options), || ()).unwrap();
    assert_eq!(warnings_of(&format!("tock: rate>7 {}", because("/misspelled:tick"))), 1);
    assert_eq!(warnings_of("is not judged"), 3, "{:#?}", warnings::so_far());
}

#[test]
fn without_introspection_a_type_has_all_metrics_but_ages() {
    if shares_its_process() {
        return;
    }
    warnings::collect();
    // It is unknown whether the type has a header, so a condition on ages is accepted.
    let expected = Expectations::new().warn_unless("age<100ms".parse().unwrap());
    let options = every(100).metrics(Metric::OF_SUBSCRIPTIONS).expect(expected);
    let (executor, node, statistics) = measured("unequipped", options);
    let imu = subscribe::<Uninstalled>(&statistics, "imu".keep_last(100));
    let warning =
        "The ages of uninstalled_msgs/msg/Imu messages will be NaN, also if they have a header stamp: \
                   their introspection type support";
    assert_eq!(warnings_of(warning), 1, "{:#?}", warnings::so_far());
    let windows = Windows::collect(imu.statistics().watch());
    let talker = node.create_publisher::<Uninstalled>("imu".keep_last(100)).unwrap();
    let _spinning = Spinning::start(executor);
    wait_for_subscriptions(&talker, 1);
    (0..10).for_each(|_| talker.publish(Uninstalled::default()).unwrap());
    wait_for("all messages in windows", || windows.total(Metric::CallbackDuration) == 10);
    let ages = [Metric::SourceToCallback, Metric::MessageAge, Metric::HeaderToSource];
    assert_eq!(ages.map(|metric| windows.total(metric)), [10, 0, 0]);
    for window in windows.0.lock().unwrap().iter() {
        assert!(!window.unstamped, "stamps are unknown, not missing");
        assert!(ages.iter().all(|metric| window.get(*metric).is_some()), "{window:?}");
    }
}
