use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    thread::JoinHandle,
    time::Duration,
};

use rclrs::{
    ClockType, DynamicMessage, MessageInfo, MessageTypeName, Node, Publisher, PublisherOptions, QoSProfile,
    RclrsError, SubscriptionOptions, Worker,
};
use ros_env::statistics_msgs::msg::MetricsMessage;
use rosidl_runtime_rs::{Message, RmwMessage};

use crate::{
    callback::{InstrumentAsyncCallback, InstrumentCallback, InstrumentWorkerCallback},
    compatibility::Request,
    dynamic::{DynamicProbe, WithQos},
    options::{
        check_period, IntoStatsSubscriptionOptions, SourceName, StatsSubscriptionOptions,
        TopicStatisticsOptions, TopicStatisticsState,
    },
    parameters::Parameters,
    probe::Probe,
    recorder::Recorder,
    schedule::{Measured, Schedule},
    simulated_time::SimulatedTime,
    subscription::{AnySubscription, StatsSubscription, StatsSubscriptionState},
    StatisticsError,
};

/// The statistics of a node's subscriptions: one publisher and one thread for all of them.
///
/// The windows are ended and published by a thread of their own: a callback that blocks the executor does not silence
/// the statistics, and publishing never delays a callback.
///
/// # ROS parameters
///
/// The node gets three parameters, by which an operator sets what subscriptions do that leave it to the node:
///
/// | parameter | type | what it is | while the node runs |
/// |---|---|---|---|
/// | `topic_statistics.enabled` | bool | whether there are statistics | can be set |
/// | `topic_statistics.publish_period` | number | seconds from one publication to the next, 0.001 to 86400 | can be set; the windows under way end one new period later |
/// | `topic_statistics.publish_topic` | string | the topic on which they are published | read only |
///
/// If a node has two `NodeStatistics`, the parameters are the first one's; the second goes by its options.
///
/// # Panics in callbacks
///
/// A callback of the node that panics unwinds from [`spin`](rclrs::Executor::spin), and rclrs 0.8 cannot spin that executor again;
/// one of a worker silences that worker. The statistics go on in both cases, and tell of the silence.
///
/// # Its end
///
/// Dropping this ends the publishing: windows that are finished are still published, those under way are not. The
/// subscriptions that were created by it live on, unmeasured.
pub struct NodeStatistics {
    node: Node,
    options: TopicStatisticsOptions,
    simulated: Option<Arc<SimulatedTime>>,
    parameters: Option<Parameters>,
    /// None if nothing is published.
    publisher: Option<Publisher<MetricsMessage>>,
    /// Publishers of subscriptions that have another topic or QoS than the node.
    others: Mutex<Vec<OtherPublisher>>,
    schedule: Arc<Schedule>,
    thread: Option<JoinHandle<()>>,
}

/// A publisher that lives as long as one of the subscriptions that share it.
struct OtherPublisher {
    topic: String,
    qos: QoSProfile,
    publisher: Weak<rclrs::PublisherState<MetricsMessage>>,
}

impl Drop for NodeStatistics {
    fn drop(&mut self) {
        self.schedule.close();
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

impl NodeStatistics {
    /// Creates the statistics of a node, as rclcpp has them by default.
    ///
    /// Errors as [`with_options`](Self::with_options) does.
    pub fn new(node: &Node) -> Result<Self, StatisticsError> {
        Self::with_options(node, TopicStatisticsOptions::new())
    }

    /// Creates the statistics of a node; `options` are the defaults of its subscriptions and of the ROS parameters.
    ///
    /// Errors if an option or a parameter has a value that is not possible, or if rclrs cannot create the publisher:
    /// if the publish topic is empty or not valid, or if the node's context is shut down, for example.
    pub fn with_options(node: &Node, options: TopicStatisticsOptions) -> Result<Self, StatisticsError> {
        options.check()?;
        let parameters = Parameters::declare(node, &options)?;
        let options = match &parameters {
            Some(parameters) => parameters.apply_to(options),
            None => options,
        };
        let publisher = match options.is_unpublished {
            true => None,
            false => Some(create_publisher(node, options.publisher_topic(), options.publisher_qos())?),
        };
        let clock = node.get_clock();
        let simulated =
            matches!(clock.clock_type(), ClockType::RosTime).then(|| Arc::new(SimulatedTime::new(clock)));
        let schedule = Arc::new(Schedule::new(
            node,
            options.state != TopicStatisticsState::Disable,
            options.publish_period.unwrap_or(TopicStatisticsOptions::PUBLISH_PERIOD),
            simulated.clone(),
        ));
        if let Some(parameters) = &parameters {
            parameters.drive(&schedule);
        }
        let thread = schedule.start().map_err(|source| {
            let node = node.fully_qualified_name();
            StatisticsError::SpawnThread { node, source }
        })?;
        Ok(Self {
            node: Arc::clone(node),
            options,
            simulated,
            parameters,
            publisher,
            others: Mutex::default(),
            schedule,
            thread: Some(thread),
        })
    }

    /// Creates a subscription that is measured; in all else it is one of
    /// [`NodeState::create_subscription`](rclrs::NodeState::create_subscription).
    ///
    /// The callback has any of the six signatures of rclrs: an [`Fn`] of the message, boxed, or as a
    /// [`ReadOnlyLoanedMessage`](rclrs::ReadOnlyLoanedMessage), alone or with [`MessageInfo`](rclrs::MessageInfo).
    ///
    /// Errors if an option has a value that is not possible, or if rclrs cannot create the subscription or the publisher
    /// that the options ask for: if a topic name is empty or not valid, for example.
    pub fn create_subscription<'a, T, Args>(
        &self,
        options: impl IntoStatsSubscriptionOptions<'a>,
        callback: impl InstrumentCallback<T, Args>,
    ) -> Result<StatsSubscription<T>, StatisticsError>
    where
        T: Message,
    {
        self.create(options.into_stats_subscription_options(), |options, probe| {
            self.node.create_subscription(options, callback.instrument(probe))
        })
    }

    /// Creates a subscription with an async callback that is measured; in all else it is one of
    /// [`NodeState::create_async_subscription`](rclrs::NodeState::create_async_subscription).
    ///
    /// The callback has the signatures of [`create_subscription`](Self::create_subscription), but is an [`FnMut`] and
    /// returns a future. Its body starts when the future is first polled.
    ///
    /// Errors as `create_subscription` does.
    pub fn create_async_subscription<'a, T, Args>(
        &self,
        options: impl IntoStatsSubscriptionOptions<'a>,
        callback: impl InstrumentAsyncCallback<T, Args>,
    ) -> Result<StatsSubscription<T>, StatisticsError>
    where
        T: Message,
    {
        self.create(options.into_stats_subscription_options(), |options, probe| {
            self.node.create_subscription(options, callback.instrument_async(probe))
        })
    }

    /// Creates a subscription on a worker that is measured; in all else it is one of
    /// [`WorkerState::create_subscription`](rclrs::WorkerState::create_subscription).
    ///
    /// The callback has the signatures of [`create_subscription`](Self::create_subscription), but is an [`FnMut`] and may
    /// take `&mut Payload` first.
    ///
    /// Errors as `create_subscription` does.
    pub fn create_worker_subscription<'a, T, Payload, Args>(
        &self,
        worker: &Worker<Payload>,
        options: impl IntoStatsSubscriptionOptions<'a>,
        callback: impl InstrumentWorkerCallback<T, Payload, Args>,
    ) -> Result<StatsSubscription<T>, StatisticsError>
    where
        T: Message,
        Payload: 'static + Send + Sync,
    {
        self.create(options.into_stats_subscription_options(), |options, probe| {
            worker.create_subscription(options, callback.instrument_worker(probe))
        })
    }

    /// Creates a subscription on a worker, of a type that is known only at run time, that is measured; in all else it is
    /// one of [`WorkerState::create_dynamic_subscription`](rclrs::WorkerState::create_dynamic_subscription).
    ///
    /// Errors as [`create_subscription`](Self::create_subscription) does, and if the type's package is not on
    /// AMENT_PREFIX_PATH or has no such type.
    pub fn create_dynamic_worker_subscription<'a, Payload>(
        &self,
        worker: &Worker<Payload>,
        message_type: MessageTypeName,
        options: impl IntoStatsSubscriptionOptions<'a>,
        mut callback: impl FnMut(&mut Payload, DynamicMessage, MessageInfo) + Send + Sync + 'static,
    ) -> Result<StatsSubscription<DynamicMessage>, StatisticsError>
    where
        Payload: 'static + Send + Sync,
    {
        let options = options.into_stats_subscription_options();
        self.create_of(message_type.to_string(), options, |options, recorder| {
            let (qos, mut probe) = (options.qos, DynamicProbe::new(recorder));
            let subscription = worker.create_dynamic_subscription(
                message_type,
                options,
                move |payload: &mut Payload, message: DynamicMessage, info: MessageInfo| {
                    let body = probe.start(&message, &info);
                    callback(payload, message, info);
                    probe.end(body);
                },
            )?;
            Ok(Arc::new(WithQos { subscription, qos }))
        })
    }

    /// Turns the statistics on or off of subscriptions that leave it to the node, as the parameter
    /// `topic_statistics.enabled` does, which follows.
    pub fn set_enabled(&self, enabled: bool) {
        match &self.parameters {
            Some(parameters) => parameters.set_enabled(enabled),
            None => self.schedule.set_enabled(enabled),
        }
    }

    /// Sets how long windows are of subscriptions that leave it to the node, as the parameter
    /// `topic_statistics.publish_period` does, which follows.
    ///
    /// Errors if that is less than 1 ms or more than a day.
    pub fn set_publish_period(&self, period: Duration) -> Result<(), StatisticsError> {
        let period = check_period(period)?;
        match &self.parameters {
            Some(parameters) => parameters.set_publish_period(period),
            None => self.schedule.set_publish_period(period),
        }
        Ok(())
    }

    fn create<T: Message, Subscription: AnySubscription + 'static>(
        &self,
        options: StatsSubscriptionOptions<'_>,
        subscribe: impl FnOnce(SubscriptionOptions<'_>, Probe<T>) -> Result<Arc<Subscription>, RclrsError>,
    ) -> Result<StatsSubscription<T>, StatisticsError> {
        let message_type = T::RmwMsg::TYPE_NAME.to_owned();
        self.create_of(message_type, options, |options, recorder| subscribe(options, Probe::new(recorder)))
    }

    /// The same, of a type (as `package/msg/Name`) that need not be known at compile time.
    fn create_of<T, Subscription: AnySubscription + 'static>(
        &self,
        message_type: String,
        options: StatsSubscriptionOptions<'_>,
        subscribe: impl FnOnce(SubscriptionOptions<'_>, Arc<Recorder>) -> Result<Arc<Subscription>, RclrsError>,
    ) -> Result<StatsSubscription<T>, StatisticsError> {
        let StatsSubscriptionOptions { subscription: options, statistics } = options;
        statistics.check()?;
        let (state, own_period) = (statistics.state, statistics.publish_period);
        let statistics = statistics.or(&self.options);
        let publisher = if statistics.is_unpublished { None } else { Some(self.publisher(&statistics)?) };

        let recorder = Arc::new(Recorder::new(options.topic, &statistics, self.simulated.clone()));
        let topic = options.topic.to_owned();
        let subscription = subscribe(options, Arc::clone(&recorder)).map_err(|source| {
            StatisticsError::CreateSubscription { topic, node: self.node.fully_qualified_name(), source }
        })?;

        let source = match statistics.source_name.unwrap_or_default() {
            SourceName::NodeAndTopic => format!("{}{}", self.node.name(), subscription.topic_name()),
            SourceName::Node => self.node.name(),
            SourceName::Custom(name) => name,
        };
        let request = Request { topic: subscription.topic_name(), message_type, qos: subscription.qos() };
        let measured = Arc::new(Measured::new(source, recorder, request));
        self.schedule.add(&measured, state, own_period, publisher);
        Ok(Arc::new(StatsSubscriptionState::new(subscription, measured, Arc::downgrade(&self.schedule))))
    }

    /// The publisher that a subscription's statistics go to: shared by all with the same topic and QoS.
    fn publisher(
        &self,
        options: &TopicStatisticsOptions,
    ) -> Result<Publisher<MetricsMessage>, StatisticsError> {
        let (topic, qos) = (options.publisher_topic(), options.publisher_qos());
        if let Some(publisher) = &self.publisher {
            if topic == self.options.publisher_topic() && qos == self.options.publisher_qos() {
                return Ok(Arc::clone(publisher));
            }
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.retain(|other| other.publisher.strong_count() > 0);
        let shared = others.iter().find(|other| other.topic == topic && other.qos == qos);
        if let Some(publisher) = shared.and_then(|other| other.publisher.upgrade()) {
            return Ok(publisher);
        }
        let publisher = create_publisher(&self.node, topic, qos)?;
        let weak = Arc::downgrade(&publisher);
        others.push(OtherPublisher { topic: topic.to_owned(), qos, publisher: weak });
        Ok(publisher)
    }
}

fn create_publisher(
    node: &Node,
    topic: &str,
    qos: QoSProfile,
) -> Result<Publisher<MetricsMessage>, StatisticsError> {
    let mut options = PublisherOptions::new(topic);
    options.qos = qos;
    node.create_publisher(options).map_err(|source| {
        let (topic, node) = (topic.to_owned(), node.fully_qualified_name());
        StatisticsError::CreatePublisher { topic, node, source }
    })
}
