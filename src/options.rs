// SPDX-License-Identifier: Apache-2.0

use std::{path::PathBuf, time::Duration};

use rclrs::{QoSProfile, SubscriptionOptions};

use crate::{collector::FirstPeriod, window::Metric, StatisticsError};

/// Whether a subscription has statistics, in rclcpp's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopicStatisticsState {
    /// It has, whatever the node says.
    Enable,
    /// It has none, whatever the node says.
    Disable,
    /// As the node says: the ROS parameter `topic_statistics.enabled`.
    #[default]
    NodeDefault,
}

/// The value of `measurement_source_name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SourceName {
    /// The node's fully qualified name and the resolved topic, `/r1/imu_listener:/imu`: a fleet's nodes and their topics can be
    /// told apart. No ROS name has a colon, so a reader splits at the first one.
    #[default]
    NodeAndTopic,
    /// The bare node name, `imu_listener`, as rclcpp has it.
    Node,
    /// A text of one's own; not empty.
    Custom(String),
}

/// Where [`Metric::MessageAge`] begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgeSource {
    /// At the header's stamp, when the measurement was valid; read against ROS time.
    #[default]
    HeaderStamp,
    /// At the middleware's source timestamp, when the message was published, as rclcpp has it from Jazzy on: for types
    /// without a header too. Read against the system clock, which source timestamps are of on simulated time too.
    SourceTimestamp,
}

/// How the messages of a subscription are measured, and where that is told.
///
/// For a node they are the defaults ([`NodeStatistics::with_options`](crate::NodeStatistics::with_options)), for a
/// subscription what differs from them
/// ([`topic_statistics`](IntoStatsSubscriptionOptions::topic_statistics)). What is not set is as the node has it, and
/// what the node does not set is as each method says.
///
/// ```
/// use rclrs_topic_statistics::{SourceName, TopicStatisticsOptions};
/// use std::time::Duration;
///
/// let every_five_seconds = TopicStatisticsOptions::new()
///     .publish_period(Duration::from_secs(5))
///     .source_name(SourceName::Custom("front_imu".to_owned()));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicStatisticsOptions {
    pub(crate) state: TopicStatisticsState,
    pub(crate) publish_period: Option<Duration>,
    pub(crate) publish_topic: Option<String>,
    pub(crate) qos: Option<QoSProfile>,
    pub(crate) source_name: Option<SourceName>,
    pub(crate) first_period: Option<FirstPeriod>,
    pub(crate) age_source: Option<AgeSource>,
    pub(crate) metrics: Option<Vec<Metric>>,
    pub(crate) is_unpublished: bool,
}

impl TopicStatisticsOptions {
    /// rclcpp's default window.
    pub(crate) const PUBLISH_PERIOD: Duration = Duration::from_secs(1);
    /// rclcpp's default topic of statistics.
    pub(crate) const PUBLISH_TOPIC: &'static str = "/statistics";
    /// The messages that wait in the publisher for slow readers: two for each of 1000 subscriptions.
    const PUBLISH_DEPTH: u32 = 2000;

    /// Returns options of which nothing is set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether there are statistics. Default of a node: [`TopicStatisticsState::Enable`].
    pub fn state(self, state: TopicStatisticsState) -> Self {
        Self { state, ..self }
    }

    /// Sets how long a window is, from 1 ms to a day. Default: 1 s.
    pub fn publish_period(self, period: Duration) -> Self {
        Self { publish_period: Some(period), ..self }
    }

    /// Sets the topic on which the windows are published, as any topic name resolved, and remapped. Default:
    /// `/statistics`.
    pub fn publish_topic(self, topic: impl Into<String>) -> Self {
        Self { publish_topic: Some(topic.into()), ..self }
    }

    /// Sets the QoS of the publisher of the statistics. Default: reliable, volatile, keep last 2000.
    pub fn qos(self, qos: QoSProfile) -> Self {
        Self { qos: Some(qos), ..self }
    }

    /// Sets what the messages call the subscription. Default: [`SourceName::NodeAndTopic`].
    pub fn source_name(self, name: SourceName) -> Self {
        Self { source_name: Some(name), ..self }
    }

    /// Sets what the first message of a window does for the period. Default: [`FirstPeriod::NoSample`].
    pub fn first_period(self, first: FirstPeriod) -> Self {
        Self { first_period: Some(first), ..self }
    }

    /// Sets where the age begins. Default: [`AgeSource::HeaderStamp`].
    pub fn age_source(self, source: AgeSource) -> Self {
        Self { age_source: Some(source), ..self }
    }

    /// Sets what is measured. Default: [`Metric::MessageAge`] and [`Metric::MessagePeriod`].
    pub fn metrics(self, metrics: impl IntoIterator<Item = Metric>) -> Self {
        Self { metrics: Some(metrics.into_iter().collect()), ..self }
    }

    /// Has the windows not published: they are there for the node itself, by
    /// [`watch`](crate::StatsSubscriptionState::watch) and [`latest`](crate::StatsSubscriptionState::latest). Of a
    /// node, there is no publisher then, whatever the subscriptions' options say.
    pub fn unpublished(self) -> Self {
        Self { is_unpublished: true, ..self }
    }

    /// Returns these options, and what they do not set as `defaults` have it.
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
            is_unpublished: self.is_unpublished || defaults.is_unpublished,
        }
    }

    /// The QoS of the publisher of the statistics.
    pub(crate) fn publisher_qos(&self) -> QoSProfile {
        self.qos.unwrap_or_else(|| QoSProfile::topics_default().keep_last(Self::PUBLISH_DEPTH).reliable())
    }

    /// The topic on which the windows are published.
    pub(crate) fn publisher_topic(&self) -> &str {
        self.publish_topic.as_deref().unwrap_or(Self::PUBLISH_TOPIC)
    }

    /// Errors if a value can never be right.
    pub(crate) fn check(&self) -> Result<(), StatisticsError> {
        if let Some(period) = self.publish_period {
            check_period(period)?;
        }
        let others = self.metrics.iter().flatten().find(|metric| !Metric::ALL.contains(metric));
        if let Some(&metric) = others {
            return Err(StatisticsError::NoMetricOfSubscriptions { metric });
        }
        match &self.source_name {
            Some(SourceName::Custom(name)) if name.is_empty() => Err(StatisticsError::EmptySourceName),
            _ => Ok(()),
        }
    }
}

/// What a node tells beside the windows of its subscriptions, and their defaults.
///
/// ```
/// use rclrs_topic_statistics::{NodeStatisticsOptions, TopicStatisticsOptions};
/// use std::time::Duration;
///
/// let options = NodeStatisticsOptions::new()
///     .topic_statistics(TopicStatisticsOptions::new().publish_period(Duration::from_secs(5)))
///     .log_table(true)
///     .topic_statistics_service(true);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NodeStatisticsOptions {
    pub(crate) topic_statistics: TopicStatisticsOptions,
    pub(crate) log_table: bool,
    pub(crate) max_event_rate: f64,
    pub(crate) service: bool,
    pub(crate) totals_file: Option<PathBuf>,
}

impl Default for NodeStatisticsOptions {
    fn default() -> Self {
        Self {
            topic_statistics: TopicStatisticsOptions::default(),
            log_table: false,
            max_event_rate: 1.0,
            service: false,
            totals_file: None,
        }
    }
}

impl From<TopicStatisticsOptions> for NodeStatisticsOptions {
    fn from(topic_statistics: TopicStatisticsOptions) -> Self {
        Self::new().topic_statistics(topic_statistics)
    }
}

impl NodeStatisticsOptions {
    /// Returns the options of which nothing is set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the defaults of everything that is measured, and of the ROS parameters.
    pub fn topic_statistics(self, topic_statistics: TopicStatisticsOptions) -> Self {
        Self { topic_statistics, ..self }
    }

    /// Sets whether the node's log has a table of every window, so that `/rosout` has it too. Default: it has none.
    pub fn log_table(self, log_table: bool) -> Self {
        Self { log_table, ..self }
    }

    /// Sets how often at most a [`MessagesLostEvent`](ros_env::topic_statistics_interfaces::msg::MessagesLostEvent) is
    /// published on `/events/messages_lost`: in Hz, up to 1000; 0 is never. Default: 1 Hz.
    ///
    /// It tells what subscriptions lost that measure [`Metric::PublicationSeqGap`], since the event before; nothing is
    /// published while nothing is lost. What late messages make good after it was announced is not taken back.
    pub fn max_event_rate(self, max_event_rate: f64) -> Self {
        Self { max_event_rate, ..self }
    }

    /// Sets whether the node has the service `~/get_topic_statistics`, which tells what its subscriptions received and
    /// lost. Default: it has none. It answers on a thread of its own, which rclrs 0.8 keeps until the executor ends.
    pub fn topic_statistics_service(self, service: bool) -> Self {
        Self { service, ..self }
    }

    /// Sets the file in which, when the statistics of the node are dropped, it is written what the subscriptions received and
    /// lost (`docs/losses.md` has the format). Default: none. What was in the file is replaced. A process
    /// that is ended by a signal drops nothing: let the executor stop, and `main` return.
    pub fn totals_file(self, path: impl Into<PathBuf>) -> Self {
        Self { totals_file: Some(path.into()), ..self }
    }

    /// Errors if a value can never be right.
    pub(crate) fn check(&self) -> Result<(), StatisticsError> {
        // Not a number is in no range.
        if !(self.max_event_rate == 0.0
            || (LOWEST_EVENT_RATE..=HIGHEST_EVENT_RATE).contains(&self.max_event_rate))
        {
            return Err(StatisticsError::InvalidEventRate { rate: self.max_event_rate });
        }
        self.topic_statistics.check()
    }
}

/// Events a second, at least, if there are any: one a day or so.
const LOWEST_EVENT_RATE: f64 = 1e-5;
/// Events a second, at most.
const HIGHEST_EVENT_RATE: f64 = 1000.0;

/// The shortest window.
pub(crate) const SHORTEST_PERIOD: Duration = Duration::from_millis(1);
/// The longest window: a day.
pub(crate) const LONGEST_PERIOD: Duration = Duration::from_secs(24 * 60 * 60);

/// Errors if a window cannot be that long.
pub(crate) fn check_period(period: Duration) -> Result<Duration, StatisticsError> {
    if (SHORTEST_PERIOD..=LONGEST_PERIOD).contains(&period) {
        Ok(period)
    } else {
        Err(StatisticsError::InvalidPublishPeriod { period })
    }
}

/// Options of a subscription with statistics: rclrs's, and those of the statistics.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StatsSubscriptionOptions<'a> {
    /// Topic and QoS of the subscription.
    pub subscription: SubscriptionOptions<'a>,
    /// What differs from the node's statistics.
    pub statistics: TopicStatisticsOptions,
}

/// What describes a subscription with statistics: whatever rclrs takes for a subscription, alone or with
/// [`topic_statistics`](Self::topic_statistics).
pub trait IntoStatsSubscriptionOptions<'a>: Sized {
    /// Returns the whole options.
    fn into_stats_subscription_options(self) -> StatsSubscriptionOptions<'a>;

    /// Sets what differs from the statistics of the node.
    ///
    /// ```
    /// # use rclrs::*;
    /// # use rclrs_topic_statistics::*;
    /// # use ros_env::sensor_msgs::msg::Imu;
    /// # use std::time::Duration;
    /// # let executor = Context::default_from_env()?.create_basic_executor();
    /// # let statistics = NodeStatistics::new(&executor.create_node("imu_listener")?)?;
    /// let slow = TopicStatisticsOptions::new().publish_period(Duration::from_secs(10));
    /// let imu = statistics.create_subscription(
    ///     "imu".keep_last(10).best_effort().topic_statistics(slow),
    ///     |message: Imu| { /* as before */ },
    /// )?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn topic_statistics(self, statistics: TopicStatisticsOptions) -> StatsSubscriptionOptions<'a> {
        StatsSubscriptionOptions { statistics, ..self.into_stats_subscription_options() }
    }
}

impl<'a, T: Into<SubscriptionOptions<'a>>> IntoStatsSubscriptionOptions<'a> for T {
    fn into_stats_subscription_options(self) -> StatsSubscriptionOptions<'a> {
        StatsSubscriptionOptions { subscription: self.into(), statistics: TopicStatisticsOptions::default() }
    }
}

impl<'a> IntoStatsSubscriptionOptions<'a> for StatsSubscriptionOptions<'a> {
    fn into_stats_subscription_options(self) -> Self {
        self
    }
}
