// SPDX-License-Identifier: Apache-2.0

//! The options of the statistics of a node and of its sources.

#[cfg(feature = "totals_file")]
use std::path::PathBuf;
use std::{borrow::Borrow, time::Duration};

use rclrs::{
    ActionClientOptions, ActionServerOptions, ClientOptions, IntoActionClientOptions,
    IntoActionServerOptions, IntoTimerOptions, PrimitiveOptions, PublisherOptions, QoSProfile,
    ServiceOptions, SubscriptionOptions, TimerOptions,
};
#[cfg(feature = "expectation_file")]
use topic_statistics_core::expectation_file::ExpectationFile;
use topic_statistics_core::{
    collector::FirstPeriod,
    health::{needed, Expectations},
    record::{
        options::{SourceDefaults, SourceOptions},
        recorder::RecorderOptions,
    },
    source_kind::SourceKind,
    AgeSource, Metric, StatisticsState,
};

use crate::error::StatisticsError;

/// The value of `measurement_source_name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceName {
    /// The node's fully qualified name and the resolved topic, `/r1/imu_listener:/imu`. This name is unique in a fleet.
    /// No ROS name contains a colon, so a reader can split the name at the first colon. If another source of the node
    /// already has the name, a number is added: `/r1/imu_listener:/imu (2)`.
    #[default]
    NodeAndTopic,
    /// The node name without its namespace, `imu_listener`, as in rclcpp. All sources of the node then have the same
    /// name.
    Node,
    /// A custom text, which must not be empty. If another source of the node already has this name, a number is added.
    Custom(String),
}

/// The options of the statistics of one source, or of all sources of a node.
///
/// The options of a node ([`NodeStatistics::with_options`](crate::NodeStatistics::with_options)) are the defaults of
/// its sources. The options of a source, such as a subscription or a publisher
/// ([`statistics`](IntoStatsOptions::statistics)), override the options of the node. An option that is set in neither
/// place has the default that the option's method documents.
///
/// ```
/// use rclrs_topic_statistics::{SourceName, StatisticsOptions};
/// use std::time::Duration;
///
/// let every_five_seconds = StatisticsOptions::new()
///     .publish_period(Duration::from_secs(5))
///     .source_name(SourceName::Custom("front_imu".to_owned()));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
#[doc(alias = "TopicStatisticsOptions")] // the name in rclcpp
pub struct StatisticsOptions {
    pub(crate) state: StatisticsState,
    pub(crate) publish_period: Option<Duration>,
    pub(crate) publish_topic: Option<String>,
    pub(crate) qos: Option<QoSProfile>,
    pub(crate) source_name: Option<SourceName>,
    pub(crate) first_period: Option<FirstPeriod>,
    pub(crate) age_source: Option<AgeSource>,
    pub(crate) metrics: Option<Vec<Metric>>,
    pub(crate) publish: Option<bool>,
    pub(crate) distributions: Option<bool>,
    pub(crate) expectations: Option<Expectations>,
}

impl StatisticsOptions {
    /// The default topic for statistics, which is the same as in rclcpp.
    pub(crate) const PUBLISH_TOPIC: &'static str = "/statistics";

    /// Returns options in which no value is set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether statistics are enabled. Default: [`StatisticsState::NodeDefault`] for a source,
    /// [`StatisticsState::Enable`] for a node.
    pub fn state(self, state: StatisticsState) -> Self {
        Self { state, ..self }
    }

    /// Sets the length of a window, from 1 ms to a day. Default: 1 s.
    pub fn publish_period(self, period: Duration) -> Self {
        Self { publish_period: Some(period), ..self }
    }

    /// Sets the topic on which windows are published. The topic is resolved and remapped like any topic name. Default:
    /// `/statistics`.
    pub fn publish_topic(self, topic: impl Into<String>) -> Self {
        Self { publish_topic: Some(topic.into()), ..self }
    }

    /// Sets the QoS of the publisher of the statistics. Default: reliable, volatile, keep last 32. If all sources
    /// together have more than eight metrics, for example five subscriptions with two metrics each, the default is keep
    /// last 2000.
    pub fn qos(self, qos: QoSProfile) -> Self {
        Self { qos: Some(qos), ..self }
    }

    /// Sets the `measurement_source_name` of the messages. Default: [`SourceName::NodeAndTopic`].
    pub fn source_name(self, name: SourceName) -> Self {
        Self { source_name: Some(name), ..self }
    }

    /// Sets whether the first message of a window has a period, which is the time since the last message of an earlier
    /// window. Default: [`FirstPeriod::NoSample`].
    pub fn first_period(self, first: FirstPeriod) -> Self {
        Self { first_period: Some(first), ..self }
    }

    /// Sets the timestamp from which the age of a message is measured. Default: [`AgeSource::HeaderStamp`]. Among
    /// sources, only the options of a subscription can set the age source: other sources receive no messages.
    pub fn age_source(self, source: AgeSource) -> Self {
        Self { age_source: Some(source), ..self }
    }

    /// Sets the metrics of a subscription. Default: [`Metric::MessageAge`] and [`Metric::MessagePeriod`].
    ///
    /// A publisher always measures [`Metric::PublishPeriod`] and [`Metric::PublishDuration`], and also measures
    /// [`Metric::MessageSize`] if its options contain this metric. Services, clients and timers measure all metrics of
    /// their [kind](SourceKind::metrics), unless their own options set the metrics.
    pub fn metrics(self, metrics: impl IntoIterator<Item = impl Borrow<Metric>>) -> Self {
        Self { metrics: Some(metrics.into_iter().map(|metric| *metric.borrow()).collect()), ..self }
    }

    /// Sets whether windows are published. If windows are not published, only the node itself can read the windows, by
    /// [`watch`](crate::SourceStatistics::watch) and [`latest`](crate::SourceStatistics::latest). Default: true.
    pub fn publish(self, publish: bool) -> Self {
        Self { publish: Some(publish), ..self }
    }

    /// Sets whether the samples of each window are collected in [`Distribution`](crate::Distribution)s, for all metrics
    /// that can have more than one sample per window. The distributions are published on
    /// `<publish_topic>/distribution`, and returned by
    /// [`WindowStatistics::distribution`](crate::WindowStatistics::distribution). Default: false.
    ///
    /// Each metric with a distribution takes 1.3 kB of memory for the current window and 1.3 kB for the last finished
    /// window. In a subscription, the metric takes another 1.3 kB for the [totals](crate::TopicTotals::distribution).
    pub fn distributions(self, distributions: bool) -> Self {
        Self { distributions: Some(distributions), ..self }
    }

    /// Sets the conditions that the source is expected to meet. The source's
    /// [`health`](crate::SourceStatistics::health) shows whether the source meets the conditions; changes of the health
    /// are logged, and the health is published on `/diagnostics`. Default: no expectations. `docs/health.md` describes
    /// the rules.
    ///
    /// The expectations of a node apply to all subscriptions without own expectations. A condition with a topic applies
    /// only to subscriptions and publishers of this topic. Instead of a topic, the name of a source is possible:
    /// `/bridge:get_imu: duration.max<5ms`. The expectations of a node are the defaults of the ROS parameters
    /// `topic_statistics.warn_unless` and `topic_statistics.error_unless`.
    ///
    /// The metrics that a condition needs are measured and published in addition to the chosen metrics. For a condition
    /// about a percentile, the distributions are also measured and published.
    ///
    /// In the options of a source, a condition needs no topic. A condition with the name of another topic or source is
    /// not judged, and the node logs a warning.
    ///
    /// ```
    /// use rclrs_topic_statistics::{health::Expectations, StatisticsOptions};
    ///
    /// let expected = Expectations::new()
    ///     .warn_unless("rate=100±10%".parse()?)
    ///     .error_unless("rate>=50 age<50ms".parse()?);
    /// let imu = StatisticsOptions::new().expect(expected);
    /// # Ok::<(), rclrs_topic_statistics::health::ConditionError>(())
    /// ```
    pub fn expect(self, expectations: Expectations) -> Self {
        Self { expectations: Some(expectations), ..self }
    }

    pub(crate) fn or(self, defaults: &Self) -> Self {
        let defaults = defaults.clone();
        Self {
            state: self.state,
            publish_period: self.publish_period.or(defaults.publish_period),
            publish_topic: self.publish_topic.or(defaults.publish_topic),
            qos: self.qos.or(defaults.qos),
            source_name: self.source_name.or(defaults.source_name),
            first_period: self.first_period.or(defaults.first_period),
            age_source: self.age_source.or(defaults.age_source),
            metrics: self.metrics.or(defaults.metrics),
            publish: self.publish.or(defaults.publish),
            distributions: self.distributions.or(defaults.distributions),
            expectations: self.expectations, // without own ones, the scheduler applies the node's
        }
    }

    /// Returns the settings that these options set for one source. Each of them replaces the node's default.
    pub(crate) fn of_source(&self) -> SourceOptions {
        let Self { state, publish_period, distributions, .. } = *self;
        let mut own = SourceOptions::from(state);
        (own.publish_period, own.distributions) = (publish_period, distributions);
        own
    }

    /// Returns the defaults that a node with these options has for sources without own settings.
    pub(crate) fn of_node(&self) -> SourceDefaults {
        let mut defaults = SourceDefaults::default();
        defaults.enabled = self.state.is_enabled(defaults.enabled);
        defaults.publish_period = self.publish_period.unwrap_or(defaults.publish_period);
        defaults.distributions = self.has_distributions();
        defaults
    }

    pub(crate) fn recorder(&self) -> RecorderOptions {
        let options = RecorderOptions::new()
            .age_source(self.age_source.unwrap_or_default())
            .first_period(self.first_period.unwrap_or_default());
        match &self.metrics {
            Some(metrics) => options.metrics(metrics),
            None => options,
        }
    }

    pub(crate) fn has_distributions(&self) -> bool {
        self.distributions.unwrap_or(false)
    }

    pub(crate) fn publisher_topic(&self) -> &str {
        self.publish_topic.as_deref().unwrap_or(Self::PUBLISH_TOPIC)
    }

    pub(crate) fn publishes(&self) -> bool {
        self.publish.unwrap_or(true)
    }

    /// Errors if a condition needs a header stamp. Call this method for a message type without a header stamp, with the
    /// age source of the node's options.
    pub(crate) fn check_without_header(
        &self,
        message_type: &str,
        age_source: Option<AgeSource>,
    ) -> Result<(), StatisticsError> {
        let has_age =
            self.age_source.or(age_source).is_some_and(|source| source == AgeSource::SourceTimestamp);
        let needs_header =
            |metric: Metric| metric.starts_at_header_stamp() && !(has_age && metric == Metric::MessageAge);
        let mut conditions = self.expectations.iter().flat_map(Expectations::conditions);
        match conditions.find(|(_, condition)| needed(condition.quantity()).is_some_and(needs_header)) {
            Some((_, condition)) => Err(StatisticsError::InvalidExpectation {
                condition: condition.to_string(),
                reason: format!(
                    "{message_type} has no header stamp; AgeSource::SourceTimestamp measures message_age from the publication"
                ),
            }),
            None => Ok(()),
        }
    }

    /// Errors if a value is out of range, if sources of this kind do not have one of the options, or if they cannot
    /// measure the quantity that a condition is about.
    pub(crate) fn check(&self, kind: SourceKind) -> Result<(), StatisticsError> {
        if let Some(period) = self.publish_period {
            check_period(period)?;
        }
        if let Some(&metric) = self.metrics.iter().flatten().find(|metric| !kind.measures(**metric)) {
            return Err(StatisticsError::UnsupportedMetric { kind, metric });
        }
        if self.age_source.is_some() && kind != SourceKind::Subscription {
            return Err(StatisticsError::UnsupportedOption { kind, option: "age_source" });
        }
        let checked = self.expectations.as_ref().map_or(Ok(()), |expectations| expectations.check(kind));
        checked.map_err(|(condition, reason)| StatisticsError::InvalidExpectation { condition, reason })?;
        match &self.source_name {
            Some(SourceName::Custom(name)) if name.is_empty() => Err(StatisticsError::EmptySourceName),
            _ => Ok(()),
        }
    }
}

/// The options of a node's statistics: the defaults of its sources, and the options of further reports.
///
/// ```
/// use rclrs_topic_statistics::{NodeStatisticsOptions, StatisticsOptions};
/// use std::time::Duration;
///
/// let options = NodeStatisticsOptions::new()
///     .statistics(StatisticsOptions::new().publish_period(Duration::from_secs(5)))
///     .log_table(true);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct NodeStatisticsOptions {
    pub(crate) statistics: StatisticsOptions,
    pub(crate) log_table: bool,
    /// In Hz; 0 disables the events.
    pub(crate) max_event_rate: f64,
    #[cfg(feature = "interfaces")]
    pub(crate) service: bool,
    pub(crate) diagnostics: bool,
    pub(crate) hardware_id: String,
    #[cfg(feature = "totals_file")]
    pub(crate) totals_file: Option<PathBuf>,
    #[cfg(feature = "expectation_file")]
    pub(crate) expectation_file: Option<ExpectationFile>,
}

impl Default for NodeStatisticsOptions {
    fn default() -> Self {
        Self {
            statistics: StatisticsOptions::default(),
            log_table: false,
            max_event_rate: if cfg!(feature = "interfaces") { 1.0 } else { 0.0 },
            #[cfg(feature = "interfaces")]
            service: false,
            diagnostics: true,
            hardware_id: "none".to_owned(),
            #[cfg(feature = "totals_file")]
            totals_file: None,
            #[cfg(feature = "expectation_file")]
            expectation_file: None,
        }
    }
}

impl From<StatisticsOptions> for NodeStatisticsOptions {
    fn from(statistics: StatisticsOptions) -> Self {
        Self::new().statistics(statistics)
    }
}

impl NodeStatisticsOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the defaults of all sources and of the ROS parameters.
    pub fn statistics(self, statistics: StatisticsOptions) -> Self {
        Self { statistics, ..self }
    }

    /// Sets whether every window is written as a table to the node's log (also on `/rosout`). Default: false.
    pub fn log_table(self, log_table: bool) -> Self {
        Self { log_table, ..self }
    }

    /// Sets the maximal rate of `topic_statistics_interfaces/msg/MessagesLostEvent`s on `/events/messages_lost`, in Hz,
    /// from 0.00001 to 1000; 0 disables the events. Default: 1 Hz.
    ///
    /// An event reports the messages lost since the previous event. Only subscriptions that measure
    /// [`Metric::PublicationSeqGap`] have events. No event is published while no messages are lost. If a message
    /// arrives after an event has reported this message as lost, no event corrects the number.
    #[cfg(feature = "interfaces")]
    pub fn max_event_rate(self, max_event_rate: f64) -> Self {
        Self { max_event_rate, ..self }
    }

    /// Sets whether the node has the service `~/get_topic_statistics`, which returns the numbers of messages received
    /// and lost by the node's subscriptions. Default: false. The service runs on a separate thread, which rclrs 0.8
    /// keeps until the executor ends.
    #[cfg(feature = "interfaces")]
    pub fn topic_statistics_service(self, service: bool) -> Self {
        Self { service, ..self }
    }

    /// Sets whether the health of sources with [expectations](StatisticsOptions::expect) is published on
    /// `/diagnostics`, as `diagnostic_msgs/msg/DiagnosticArray`: once per second, and immediately when the health of a
    /// source becomes ERROR. Default: true. Without expectations, no health is published.
    pub fn diagnostics(self, diagnostics: bool) -> Self {
        Self { diagnostics, ..self }
    }

    /// Sets the `hardware_id` of the health on `/diagnostics`. Default: `none`, which is diagnostic_updater's value for
    /// no device.
    pub fn hardware_id(self, hardware_id: impl Into<String>) -> Self {
        Self { hardware_id: hardware_id.into(), ..self }
    }

    /// Sets the file for the numbers of messages that the subscriptions received and lost. The file is written in YAML
    /// when the statistics of the node end (format: `docs/totals_file.md`). An existing file is replaced. Default:
    /// none.
    ///
    /// If a signal kills the process, no file is written. Stop the executor when the signal arrives, and return from
    /// `main`.
    ///
    /// [`NodeStatistics`]: crate::NodeStatistics
    #[cfg(feature = "totals_file")]
    pub fn totals_file(self, path: impl Into<PathBuf>) -> Self {
        Self { totals_file: Some(path.into()), ..self }
    }

    /// Sets the file of expectations. topic_monitor, bag_statistics and preloaded nodes can read the same file. If the
    /// file has expectations for a source, they replace the node's expectations for this source, unless the source's
    /// own options [have expectations](StatisticsOptions::expect). Expectations for topics that the node does not use
    /// have no effect. Default: none.
    ///
    /// ```
    /// use rclrs_topic_statistics::{health::{ExpectationFile, Namespace}, NodeStatisticsOptions};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("robot.yaml");
    /// # std::fs::write(&path, "topics: {imu: {error_unless: rate>=50}}")?;
    /// let file = ExpectationFile::read(&path, &Namespace::default())?;
    /// let options = NodeStatisticsOptions::new().expectation_file(file);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "expectation_file")]
    pub fn expectation_file(self, file: ExpectationFile) -> Self {
        Self { expectation_file: Some(file), ..self }
    }

    pub(crate) fn has_expectation_file(&self) -> bool {
        #[cfg(feature = "expectation_file")]
        return self.expectation_file.is_some();
        #[cfg(not(feature = "expectation_file"))]
        false
    }

    pub(crate) fn check(&self) -> Result<(), StatisticsError> {
        #[cfg(feature = "interfaces")]
        // This check also refuses NaN, which no range contains. The lowest rate is about one event per day.
        if !(self.max_event_rate == 0.0 || (1e-5..=1000.0).contains(&self.max_event_rate)) {
            return Err(StatisticsError::InvalidEventRate { rate: self.max_event_rate });
        }
        self.statistics.check(SourceKind::Subscription)
    }
}

pub(crate) fn check_period(period: Duration) -> Result<Duration, StatisticsError> {
    let (shortest, longest) = (Duration::from_millis(1), Duration::from_secs(24 * 60 * 60));
    if (shortest..=longest).contains(&period) {
        Ok(period)
    } else {
        Err(StatisticsError::InvalidPublishPeriod { period })
    }
}

/// The options that a `create_*` method of [`NodeStatistics`](crate::NodeStatistics) takes: everything that the same
/// method of rclrs takes as options, alone or combined with options of the [statistics](IntoStatsOptions::statistics).
///
/// User code does not need to name this trait, and cannot implement it.
pub trait StatsOptions<Options>: sealed::Split<Options> {}

impl<Options, T: sealed::Split<Options>> StatsOptions<Options> for T {}

/// Options of rclrs, combined with options of the statistics. See [`IntoStatsOptions`].
#[derive(Clone, Debug)]
#[must_use]
pub struct WithStatistics<T> {
    options: T,
    statistics: StatisticsOptions,
}

/// Adds options of the statistics to everything that rclrs takes as options for a subscription, a publisher, a service,
/// a client, a timer or an action.
///
/// Other types do not implement this trait:
///
/// ```compile_fail,E0599
/// # use rclrs_topic_statistics::*;
/// let _options = 5u8.statistics(StatisticsOptions::new());
/// ```
pub trait IntoStatsOptions: sealed::RclrsOptions + Sized {
    /// Adds options of the statistics, which override the options of the node.
    ///
    /// ```
    /// # use rclrs::*;
    /// # use rclrs_topic_statistics::*;
    /// # use ros_env::sensor_msgs::msg::Imu;
    /// # use std::time::Duration;
    /// # let executor = Context::default_from_env()?.create_basic_executor();
    /// # let statistics = NodeStatistics::new(&executor.create_node("imu_filter")?)?;
    /// let slow = StatisticsOptions::new().publish_period(Duration::from_secs(10));
    /// let raw = statistics.create_subscription(
    ///     "imu".keep_last(10).best_effort().statistics(slow.clone()),
    ///     |message: Imu| { /* as before */ },
    /// )?;
    /// let filtered = statistics.create_publisher::<Imu>("imu/filtered".statistics(slow))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "topic_stats_options")] // the name in rclcpp
    fn statistics(self, statistics: StatisticsOptions) -> WithStatistics<Self> {
        WithStatistics { options: self, statistics }
    }
}

impl<T: sealed::RclrsOptions> IntoStatsOptions for T {}

/// The types that rclrs takes as options, and their conversion into options and statistics options.
mod sealed {
    use super::*;

    /// A type that rclrs takes as options: a name, a name with QoS, a period, or an options struct of rclrs.
    pub trait RclrsOptions {}

    impl<T: Borrow<str> + ?Sized> RclrsOptions for &T {}
    impl RclrsOptions for PrimitiveOptions<'_> {}
    impl RclrsOptions for SubscriptionOptions<'_> {}
    impl RclrsOptions for PublisherOptions<'_> {}
    impl RclrsOptions for ServiceOptions<'_> {}
    impl RclrsOptions for ClientOptions<'_> {}
    impl RclrsOptions for TimerOptions<'_> {}
    impl RclrsOptions for Duration {}
    impl RclrsOptions for ActionServerOptions<'_> {}
    impl RclrsOptions for ActionClientOptions<'_> {}

    /// Options of rclrs, alone or combined with options of the statistics.
    pub trait Split<Options> {
        fn split(self) -> (Options, StatisticsOptions);
    }

    macro_rules! split {
        ($($Options:ident from $From:path, by $into:ident;)+) => {$(
            impl<'a, T: $From> Split<$Options<'a>> for T {
                fn split(self) -> ($Options<'a>, StatisticsOptions) {
                    (self.$into(), StatisticsOptions::new())
                }
            }

            impl<'a, T: $From> Split<$Options<'a>> for WithStatistics<T> {
                fn split(self) -> ($Options<'a>, StatisticsOptions) {
                    (self.options.$into(), self.statistics)
                }
            }
        )+};
    }

    split! {
        SubscriptionOptions from Into<SubscriptionOptions<'a>>, by into;
        PublisherOptions from Into<PublisherOptions<'a>>, by into;
        ServiceOptions from Into<ServiceOptions<'a>>, by into;
        ClientOptions from Into<ClientOptions<'a>>, by into;
        TimerOptions from IntoTimerOptions<'a>, by into_timer_options;
        ActionServerOptions from IntoActionServerOptions<'a>, by into_action_server_options;
        ActionClientOptions from IntoActionClientOptions<'a>, by into_action_client_options;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_out_of_range_is_refused_with_the_value_and_the_rule() {
        let own = StatisticsOptions::new;
        let period = |period| own().publish_period(period).into();
        let rate = |rate| NodeStatisticsOptions::new().max_event_rate(rate);
        let name = |name: &str| own().source_name(SourceName::Custom(name.to_owned())).into();
        let day = Duration::from_secs(86_400);
        let expect = |conditions: &str| Expectations::new().warn_unless(conditions.parse().unwrap());
        let period_rule = "is not possible: it has to be from 1 ms to a day (86400 s)";
        let rate_rule = "Hz is not possible: it has to be 0 (no events), or from 0.00001 to 1000 Hz";
        let cases: [(NodeStatisticsOptions, Option<String>); 15] = [
            (period(Duration::from_millis(1)), None),
            (period(day), None),
            (period(Duration::ZERO), Some(format!("A publish period of 0ns {period_rule}"))),
            (period(Duration::from_micros(999)), Some(format!("A publish period of 999µs {period_rule}"))),
            (period(day + Duration::from_nanos(1)), Some("A publish period of 86400.000000001s".to_owned())),
            (rate(0.0), None),
            (rate(1e-5), None),
            (rate(1000.0), None),
            (rate(-1.0), Some(format!("A maximal event rate of -1 {rate_rule}"))),
            (rate(1e-9), Some(format!("A maximal event rate of 0.000000001 {rate_rule}"))),
            (rate(1001.0), Some(format!("A maximal event rate of 1001 {rate_rule}"))),
            (rate(f64::NAN), Some(format!("A maximal event rate of NaN {rate_rule}"))),
            (name(""), Some("The source name of statistics is empty".to_owned())),
            (
                own().metrics([Metric::MessageAge, Metric::Frequency]).into(),
                Some("A subscription has no metric \"frequency_hz\"".to_owned()),
            ),
            (
                own().expect(expect("publish_period<5")).into(),
                Some("The condition \"publish_period<5\" cannot be expected: a subscription".to_owned()),
            ),
        ];
        for (options, error) in cases {
            let checked = options.check().map_err(|error| error.to_string());
            match error {
                None => assert_eq!(checked, Ok(())),
                Some(error) => {
                    assert!(checked.clone().unwrap_err().starts_with(&error), "{checked:?}: {error}")
                }
            }
        }
        for (conditions, reason) in [("lost=0", "does not know what is lost"), ("age<5", "publish_period")] {
            let checked = own().expect(expect(conditions)).check(SourceKind::Publisher);
            assert!(checked.unwrap_err().to_string().contains(reason), "{conditions}");
        }
    }

    #[test]
    fn an_age_needs_a_header_or_the_source_timestamp() {
        let source = Some(AgeSource::SourceTimestamp);
        for (conditions, own, node, is_refused) in [
            ("age<5", None, None, true),
            ("age<5", source, None, false),
            ("age<5", None, source, false),
            ("age<5", Some(AgeSource::HeaderStamp), source, true),
            ("header_to_source_ms<5", source, source, true),
            ("rate>=1 lost=0", None, None, false),
        ] {
            let expected = Expectations::new().error_unless(conditions.parse().unwrap());
            let mut options = StatisticsOptions::new().expect(expected);
            options.age_source = own;
            let checked = options.check_without_header("std_msgs/msg/String", node);
            assert_eq!(checked.is_err(), is_refused, "{conditions} {own:?} {node:?}");
            let text = checked.err().map_or(String::new(), |error| error.to_string());
            assert_eq!(text.contains("std_msgs/msg/String has no header stamp"), is_refused, "{text}");
        }
    }
}
