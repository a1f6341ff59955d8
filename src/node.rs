// SPDX-License-Identifier: Apache-2.0

mod code;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, Weak},
    thread::JoinHandle,
    time::Duration,
};

use rclrs::{
    log_warn, ClockType, DynamicMessage, MessageInfo, MessageTypeName, Node, Publisher, PublisherOptions,
    QoSProfile, RclrsError, SubscriptionOptions, Worker,
};
use ros_env::statistics_msgs::msg::MetricsMessage;
use rosidl_runtime_rs::{Message, RmwMessage};

use self::code::Named;
use crate::{
    callback::{InstrumentAsyncCallback, InstrumentCallback, InstrumentWorkerCallback},
    compatibility::Request,
    counter::CounterState,
    dynamic::{DynamicProbe, WithQos},
    losses,
    measured::{lock, Measured, Recording, Windowed},
    options::{
        check_period, IntoStatsSubscriptionOptions, NodeStatisticsOptions, SourceName,
        StatsSubscriptionOptions, TopicStatisticsOptions, TopicStatisticsState,
    },
    parameters::Parameters,
    probe::Probe,
    publisher::{Publications, StatsPublisher, StatsPublisherState},
    recorder::Recorder,
    schedule::Schedule,
    service::{self, TopicStatisticsService},
    simulated_time::SimulatedTime,
    stamp::StampField,
    subscription::{AnySubscription, StatsSubscription, StatsSubscriptionState},
    timer::TimerState,
    totals::TopicTotals,
    totals_file,
    window::Metric,
    StatisticsError,
};

/// The statistics of a node's subscriptions and publishers, and of its code: one publisher and one thread for all of them.
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
/// Dropping this ends the publishing, in a second at most: windows that are finished are still published, those under way are
/// not. Losses that were not announced are announced, and the [file of totals](NodeStatisticsOptions::totals_file) is written.
/// What the middleware does not take in that time is lost, and the node's log says so. The subscriptions and publishers that were
/// created by it live on, unmeasured.
pub struct NodeStatistics {
    node: Node,
    options: TopicStatisticsOptions,
    simulated: Option<Arc<SimulatedTime>>,
    parameters: Option<Parameters>,
    /// None if nothing is published.
    publisher: Option<Publisher<MetricsMessage>>,
    /// Publishers of subscriptions that have another topic or QoS than the node.
    others: Mutex<Vec<OtherPublisher>>,
    timers: Named<TimerState>,
    counters: Named<CounterState>,
    schedule: Arc<Schedule>,
    thread: Option<JoinHandle<()>>,
    _service: Option<TopicStatisticsService>,
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
            self.schedule.wait_for_end(thread);
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

    /// Creates the statistics of a node; [`TopicStatisticsOptions`] are the defaults of what is measured and of the ROS
    /// parameters, [`NodeStatisticsOptions`] are those and what else the node tells.
    ///
    /// Errors if an option or a parameter has a value that is not possible, if a file of totals cannot be written, or if rclrs
    /// cannot create the publisher: if the publish topic is empty or not valid, or if the node's context is shut down, for
    /// example.
    pub fn with_options(
        node: &Node,
        options: impl Into<NodeStatisticsOptions>,
    ) -> Result<Self, StatisticsError> {
        let options = options.into();
        options.check()?;
        let NodeStatisticsOptions {
            topic_statistics: options,
            log_table,
            max_event_rate,
            service,
            totals_file,
        } = options;
        let check = |path: PathBuf| {
            totals_file::check(&path).map_err(|source| {
                let node = node.fully_qualified_name();
                StatisticsError::TotalsFile { node, path, source }
            })
        };
        let totals_file = totals_file.map(check).transpose()?;
        let parameters = Parameters::declare(node, &options)?;
        let options = match &parameters {
            Some(parameters) => parameters.apply_to(options),
            None => options,
        };
        let publisher = match options.is_unpublished {
            true => None,
            false => {
                Some(create_statistics_publisher(node, options.publisher_topic(), options.publisher_qos())?)
            }
        };
        let clock = node.get_clock();
        let simulated =
            matches!(clock.clock_type(), ClockType::RosTime).then(|| Arc::new(SimulatedTime::new(clock)));
        let schedule = Arc::new(Schedule::new(
            node,
            options.state != TopicStatisticsState::Disable,
            options.publish_period.unwrap_or(TopicStatisticsOptions::PUBLISH_PERIOD),
            simulated.clone(),
            log_table,
            max_event_rate,
            totals_file,
        ));
        let service = service.then(|| service::create(node, &schedule)).transpose().map_err(|source| {
            let node = node.fully_qualified_name();
            StatisticsError::CreateService { name: service::NAME, node, source }
        })?;
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
            timers: Named::default(),
            counters: Named::default(),
            schedule,
            thread: Some(thread),
            _service: service,
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

    /// Creates a publisher that is measured; in all else it is one of
    /// [`NodeState::create_publisher`](rclrs::NodeState::create_publisher).
    ///
    /// Errors if rclrs cannot create it: if the topic name is empty or not valid, for example.
    pub fn create_publisher<'a, T: Message>(
        &self,
        options: impl Into<PublisherOptions<'a>>,
    ) -> Result<StatsPublisher<T>, StatisticsError> {
        self.create_publisher_with_options(options, TopicStatisticsOptions::new())
    }

    /// Creates a publisher that is measured, with statistics that differ from those of the node: `statistics` sets what it
    /// does for a subscription, but for the metrics and where the age begins.
    ///
    /// Errors as [`create_publisher`](Self::create_publisher) does, and if an option has a value that is not possible.
    pub fn create_publisher_with_options<'a, T: Message>(
        &self,
        options: impl Into<PublisherOptions<'a>>,
        statistics: TopicStatisticsOptions,
    ) -> Result<StatsPublisher<T>, StatisticsError> {
        statistics.check()?;
        let (state, own_period) = (statistics.state, statistics.publish_period);
        let statistics = statistics.or(&self.options);
        let to = self.publisher(&statistics)?;
        let publisher = create_publisher(&self.node, options.into())?;
        let source = self.source_name(statistics.source_name, &publisher.topic_name());
        let publications =
            Arc::new(Windowed::new(Publications::new(statistics.first_period.unwrap_or_default())));
        let measured = Arc::new(Measured::new(source, Arc::clone(&publications) as Arc<dyn Recording>, None));
        self.schedule.add(&measured, state, own_period, to);
        let schedule = Arc::downgrade(&self.schedule);
        Ok(Arc::new(StatsPublisherState::new(publisher, publications, measured, schedule)))
    }

    /// Returns what each subscription received and lost, and those that have ended (of at most 1000 names, the last ones); it waits
    /// for no window.
    pub fn totals(&self) -> Vec<TopicTotals> {
        self.schedule.totals()
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

    fn source_name(&self, name: Option<SourceName>, topic: &str) -> String {
        match name.unwrap_or_default() {
            SourceName::NodeAndTopic => format!("{}:{topic}", self.node.fully_qualified_name()),
            SourceName::Node => self.node.name(),
            SourceName::Custom(name) => name,
        }
    }

    fn create<T: Message, Subscription: AnySubscription + 'static>(
        &self,
        options: StatsSubscriptionOptions<'_>,
        subscribe: impl FnOnce(SubscriptionOptions<'_>, Probe<T>) -> Result<Arc<Subscription>, RclrsError>,
    ) -> Result<StatsSubscription<T>, StatisticsError> {
        let message_type = T::RmwMsg::TYPE_NAME.to_owned();
        let stamp = StampField::find().unwrap_or_else(|warning| {
            tracing::warn!("{warning}");
            log_warn!(self.node.logger(), "{warning}");
            None
        });
        self.create_of(message_type, options, |options, recorder| {
            subscribe(options, Probe::new(stamp, recorder))
        })
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
        let publisher = self.publisher(&statistics)?;

        let recorder = Arc::new(Recorder::new(options.topic, &statistics, self.simulated.clone()));
        let topic = options.topic.to_owned();
        let subscription = subscribe(options, Arc::clone(&recorder)).map_err(|source| {
            StatisticsError::CreateSubscription { topic, node: self.node.fully_qualified_name(), source }
        })?;

        let source = self.source_name(statistics.source_name.clone(), &subscription.topic_name());
        let request = Request { topic: subscription.topic_name(), message_type, qos: subscription.qos() };
        let measured =
            Arc::new(Measured::new(source, Arc::clone(&recorder) as Arc<dyn Recording>, Some(request)));
        let measures_losses = statistics.metrics.iter().flatten().any(|of| *of == Metric::PublicationSeqGap);
        if measures_losses && !statistics.is_unpublished {
            self.schedule.announce_losses(&measured, || {
                create_publisher(&self.node, PublisherOptions::new(losses::TOPIC))
            })?;
        }
        self.schedule.add(&measured, state, own_period, publisher);
        let schedule = Arc::downgrade(&self.schedule);
        Ok(Arc::new(StatsSubscriptionState::new(subscription, recorder, measured, schedule)))
    }

    /// The publisher that statistics go to, shared by all with the same topic and QoS; None if they are not published.
    fn publisher(
        &self,
        options: &TopicStatisticsOptions,
    ) -> Result<Option<Publisher<MetricsMessage>>, StatisticsError> {
        if options.is_unpublished {
            return Ok(None);
        }
        let (topic, qos) = (options.publisher_topic(), options.publisher_qos());
        if let Some(publisher) = &self.publisher {
            if topic == self.options.publisher_topic() && qos == self.options.publisher_qos() {
                return Ok(Some(Arc::clone(publisher)));
            }
        }
        let mut others = lock(&self.others);
        others.retain(|other| other.publisher.strong_count() > 0);
        let shared = others.iter().find(|other| other.topic == topic && other.qos == qos);
        if let Some(publisher) = shared.and_then(|other| other.publisher.upgrade()) {
            return Ok(Some(publisher));
        }
        let publisher = create_statistics_publisher(&self.node, topic, qos)?;
        let weak = Arc::downgrade(&publisher);
        others.push(OtherPublisher { topic: topic.to_owned(), qos, publisher: weak });
        Ok(Some(publisher))
    }
}

fn create_statistics_publisher(
    node: &Node,
    topic: &str,
    qos: QoSProfile,
) -> Result<Publisher<MetricsMessage>, StatisticsError> {
    let mut options = PublisherOptions::new(topic);
    options.qos = qos;
    create_publisher(node, options)
}

fn create_publisher<T: Message>(
    node: &Node,
    options: PublisherOptions<'_>,
) -> Result<Publisher<T>, StatisticsError> {
    let topic = options.topic.to_owned();
    node.create_publisher(options).map_err(|source| {
        let node = node.fully_qualified_name();
        StatisticsError::CreatePublisher { topic, node, source }
    })
}
