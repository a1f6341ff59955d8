// SPDX-License-Identifier: Apache-2.0

//! Faults that the library logs as warnings, and invalid options.

use rclrs::*;
use rclrs_topic_statistics::{
    Metric, NodeStatistics, NodeStatisticsOptions, StatisticsError, TopicStatisticsOptions,
};
use ros_env::sensor_msgs::msg::rmw::Imu;
use rosidl_runtime_rs::{Message, RmwMessage, Sequence, SequenceAlloc};
use test_support::{context, domain, middleware, wait_for, warnings, Program, Spinning};

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
    warnings::collect();
    let domain = domain(0);
    let executor = context(domain, &[]).create_basic_executor();
    let node = executor.create_node("unequipped").unwrap();
    let statistics =
        NodeStatistics::with_options(&node, TopicStatisticsOptions::new().metrics(Metric::OF_SUBSCRIPTIONS))
            .unwrap();
    let imu = statistics
        .create_subscription("imu".keep_last(10), |message: Uninstalled| {
            assert_eq!(message.0.header.frame_id.to_string(), "imu_link");
        })
        .unwrap();
    let warnings = warnings::so_far();
    assert!(
        warnings.iter().any(|warning| warning.starts_with(
            "The ages of uninstalled_msgs/msg/Imu messages will be NaN: its introspection type support"
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
}

#[test]
fn invalid_options_are_errors_with_the_value_and_create_nothing() {
    let executor = context(domain(1), &[]).create_basic_executor();
    let node = executor.create_node("mistaken").unwrap();
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
        assert!(matches!(&error, StatisticsError::TotalsFile { path: of, .. } if of == path), "{error}");
        assert!(
            error.to_string().starts_with("The totals of the node \"/mistaken\" cannot be written"),
            "{error}"
        );
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "no file is created");
}

#[test]
fn a_totals_file_that_can_no_longer_be_written_is_logged() {
    warnings::collect();
    let executor = context(domain(2), &[]).create_basic_executor();
    let node = executor.create_node("late").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let options = NodeStatisticsOptions::new().totals_file(directory.path().join("totals.yaml"));
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    drop(directory);
    drop(statistics);
    let logged = warnings::so_far();
    assert!(
        logged.iter().any(|of| of.starts_with("The totals of the node \"/late\" cannot be written")),
        "{logged:?}"
    );
}
