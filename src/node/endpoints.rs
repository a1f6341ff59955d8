// SPDX-License-Identifier: Apache-2.0

//! Creates subscriptions and publishers with statistics.

use std::{borrow::Cow, convert::Infallible, future::Future, sync::Arc};

use rclrs::{
    log_warn, DynamicMessage, DynamicSubscriptionState, MessageInfo, MessageTypeName, PublisherOptions,
    QoSDurabilityPolicy, RclrsError, SubscriptionOptions, SubscriptionState, WorkScope, Worker,
};
use rosidl_runtime_rs::{Message, RmwMessage};
use topic_statistics_core::{
    health::{Expectations, Names},
    record::{
        clock::HostClock,
        publications::Publications,
        recorder::Recorder,
        source::{Source, SourceHandle},
        windowed::Windowed,
    },
    source_kind::SourceKind,
    Metric,
};

#[cfg(feature = "interfaces")]
use super::publishers::create_publisher;
use super::NodeStatistics;
use crate::{
    error::StatisticsError,
    graph::{PublisherCheck, Request},
    measure::{
        callback::{InstrumentAsyncCallback, InstrumentCallback, InstrumentWorkerCallback},
        dynamic::{has_no_stamp, DynamicProbe, DynamicSubscription},
        dynamic_size::DynamicSize,
        goal::fully_qualified,
        probe::Probe,
        publisher::{StatsDynamicPublisher, StatsDynamicPublisherState, StatsPublisher, StatsPublisherState},
        size::SerializedSize,
        stamp::StampField,
        subscription::{AnySubscription, StatsSubscription, StatsSubscriptionState, StatsWorkerSubscription},
    },
    options::{StatisticsOptions, StatsOptions},
    report::diagnostics,
};

type Subscribe<'s> =
    dyn FnOnce(SubscriptionOptions<'_>, Arc<Recorder>) -> Result<Arc<dyn AnySubscription>, RclrsError> + 's;

type CreatedSubscription = (SourceHandle, Arc<Recorder>, Arc<dyn AnySubscription>);
type CreatedPublisher<Publisher, Size> = (Publisher, Option<Size>, SourceHandle, Arc<Windowed<Publications>>);

impl NodeStatistics {
    /// Creates a subscription with statistics, like
    /// [`NodeState::create_subscription`](rclrs::NodeState::create_subscription).
    ///
    /// The callback has one of the six signatures that rclrs supports: an [`Fn`] that takes the message, a boxed
    /// message or a [`ReadOnlyLoanedMessage`](rclrs::ReadOnlyLoanedMessage), with or without [`MessageInfo`].
    ///
    /// The options are rclrs's options, such as `"imu".keep_last(10)`. Options of the statistics can be added to them,
    /// such as `"imu".keep_last(10).statistics(options)`: see [`statistics`](crate::IntoStatsOptions::statistics).
    ///
    /// # Errors
    ///
    /// Errors if an option is out of range, or if rclrs cannot create the subscription or the publisher of its
    /// statistics, for example because a topic name is invalid.
    pub fn create_subscription<'a, T, Args>(
        &self,
        options: impl StatsOptions<SubscriptionOptions<'a>>,
        callback: impl InstrumentCallback<T, Args>,
    ) -> Result<StatsSubscription<T>, StatisticsError>
    where
        T: Message,
    {
        self.create(options.split(), |options, probe| {
            self.running.node.create_subscription(options, callback.instrument(probe))
        })
    }

    /// Creates a subscription with an async callback and statistics, like
    /// [`NodeState::create_async_subscription`](rclrs::NodeState::create_async_subscription).
    ///
    /// The callback takes the same arguments as in [`create_subscription`](Self::create_subscription), but is an
    /// [`FnMut`] and returns a future. The callback starts when this future is first polled. Returns the same errors as
    /// `create_subscription`.
    pub fn create_async_subscription<'a, T, Args>(
        &self,
        options: impl StatsOptions<SubscriptionOptions<'a>>,
        callback: impl InstrumentAsyncCallback<T, Args>,
    ) -> Result<StatsSubscription<T>, StatisticsError>
    where
        T: Message,
    {
        self.create(options.split(), |options, probe| {
            self.running.node.create_subscription(options, callback.instrument_async(probe))
        })
    }

    /// Creates a subscription on a worker with statistics, like
    /// [`WorkerState::create_subscription`](rclrs::WorkerState::create_subscription).
    ///
    /// The callback takes the same arguments as in [`create_subscription`](Self::create_subscription), but is an
    /// [`FnMut`] and may take `&mut Payload` as the first argument. Returns the same errors as `create_subscription`.
    pub fn create_worker_subscription<'a, T, Payload, Args>(
        &self,
        worker: &Worker<Payload>,
        options: impl StatsOptions<SubscriptionOptions<'a>>,
        callback: impl InstrumentWorkerCallback<T, Payload, Args>,
    ) -> Result<StatsWorkerSubscription<T, Payload>, StatisticsError>
    where
        T: Message,
        Payload: 'static + Send + Sync,
    {
        self.create(options.split(), |options, probe| {
            worker.create_subscription(options, callback.instrument_worker(probe))
        })
    }

    /// Creates a subscription with statistics, of a type that is known only at run time, like
    /// [`NodeState::create_dynamic_subscription`](rclrs::NodeState::create_dynamic_subscription). Returns the same
    /// errors as [`create_subscription`](Self::create_subscription), and an error if AMENT_PREFIX_PATH does not have
    /// the type.
    ///
    /// ```
    /// # use rclrs::*;
    /// # use rclrs_topic_statistics::NodeStatistics;
    /// # let executor = Context::default_from_env()?.create_basic_executor();
    /// # let statistics = NodeStatistics::new(&executor.create_node("listener")?)?;
    /// let message_type = "sensor_msgs/msg/Imu".try_into()?;
    /// let imu = statistics.create_dynamic_subscription(message_type, "imu", |message: DynamicMessage, _| {
    ///     println!("{:?}", message.get("angular_velocity"));
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_dynamic_subscription<'a>(
        &self,
        message_type: MessageTypeName,
        options: impl StatsOptions<SubscriptionOptions<'a>>,
        callback: impl Fn(DynamicMessage, MessageInfo) + Send + Sync + 'static,
    ) -> Result<StatsSubscription<DynamicMessage>, StatisticsError> {
        self.create_dynamic(message_type, options, |message_type, options, probe| {
            self.running.node.create_dynamic_subscription(message_type, options, move |message, info| {
                let running = probe.start(probe.receive(&message, &info));
                callback(message, info);
                probe.end(running);
            })
        })
    }

    /// Creates a subscription with an async callback and statistics, of a type that is known only at run time, like
    /// [`NodeState::create_async_dynamic_subscription`](rclrs::NodeState::create_async_dynamic_subscription). The
    /// callback starts when its future is first polled. Returns the same errors as
    /// [`create_dynamic_subscription`](Self::create_dynamic_subscription).
    pub fn create_async_dynamic_subscription<'a, Out>(
        &self,
        message_type: MessageTypeName,
        options: impl StatsOptions<SubscriptionOptions<'a>>,
        mut callback: impl FnMut(DynamicMessage, MessageInfo) -> Out + Send + Sync + 'static,
    ) -> Result<StatsSubscription<DynamicMessage>, StatisticsError>
    where
        Out: Future<Output = ()> + Send + 'static,
    {
        self.create_dynamic(message_type, options, |message_type, options, probe| {
            let probe = Arc::new(probe);
            self.running.node.create_async_dynamic_subscription(
                message_type,
                options,
                move |message, info| {
                    let received = probe.receive(&message, &info);
                    let future = callback(message, info);
                    let probe = Arc::clone(&probe);
                    Box::pin(async move {
                        let running = probe.start(received);
                        future.await;
                        probe.end(running);
                    })
                },
            )
        })
    }

    /// Creates a subscription on a worker with statistics, of a type that is known only at run time, like
    /// [`WorkerState::create_dynamic_subscription`](rclrs::WorkerState::create_dynamic_subscription). Returns the same
    /// errors as [`create_dynamic_subscription`](Self::create_dynamic_subscription).
    pub fn create_worker_dynamic_subscription<'a, Payload>(
        &self,
        worker: &Worker<Payload>,
        message_type: MessageTypeName,
        options: impl StatsOptions<SubscriptionOptions<'a>>,
        mut callback: impl FnMut(&mut Payload, DynamicMessage, MessageInfo) + Send + Sync + 'static,
    ) -> Result<StatsWorkerSubscription<DynamicMessage, Payload>, StatisticsError>
    where
        Payload: 'static + Send + Sync,
    {
        self.create_dynamic(message_type, options, |message_type, options, probe| {
            worker.create_dynamic_subscription(
                message_type,
                options,
                move |payload: &mut Payload, message: DynamicMessage, info: MessageInfo| {
                    let running = probe.start(probe.receive(&message, &info));
                    callback(payload, message, info);
                    probe.end(running);
                },
            )
        })
    }

    fn create_dynamic<'a, Scope: WorkScope + 'static>(
        &self,
        message_type: MessageTypeName,
        options: impl StatsOptions<SubscriptionOptions<'a>>,
        subscribe: impl FnOnce(
            MessageTypeName,
            SubscriptionOptions<'_>,
            DynamicProbe,
        ) -> Result<Arc<DynamicSubscriptionState<Scope>>, RclrsError>,
    ) -> Result<Arc<StatsSubscriptionState<DynamicMessage, Scope>>, StatisticsError> {
        let (options, statistics) = options.split();
        let name = message_type.to_string();
        if has_no_stamp(&message_type) {
            statistics.check_without_header(&name, self.options.age_source)?;
        }
        let statistics = self.with_metrics_for(options.topic, statistics, SourceKind::Subscription);
        let size = self.find_size(&statistics, || DynamicSize::find(&name));
        let subscribe = |options: SubscriptionOptions<'_>, recorder| {
            let qos = options.qos;
            let subscription = subscribe(message_type, options, DynamicProbe::new(size, recorder))?;
            Ok(Arc::new(DynamicSubscription { subscription, qos }) as _)
        };
        let (source, recorder, subscription) =
            self.create_any(name.into(), (options, statistics), Box::new(subscribe))?;
        Ok(Arc::new(StatsSubscriptionState::new(source, recorder, subscription)))
    }

    /// Creates a publisher with statistics, like [`NodeState::create_publisher`](rclrs::NodeState::create_publisher).
    ///
    /// # Errors
    ///
    /// Errors if an option is out of range, if publishers do not have one of the options, or if rclrs cannot create the
    /// publisher, for example because the topic name is invalid.
    pub fn create_publisher<'a, T: Message>(
        &self,
        options: impl StatsOptions<PublisherOptions<'a>>,
    ) -> Result<StatsPublisher<T>, StatisticsError> {
        let (options, statistics) = options.split();
        let create = |options| {
            let publisher = self.running.node.create_publisher::<T::RmwMsg>(options)?;
            Ok((publisher.topic_name(), publisher))
        };
        let (publisher, size, source, publications) =
            self.create_any_publisher(options, statistics, create, SerializedSize::of_published)?;
        Ok(Arc::new(StatsPublisherState::new(source, publications, size.map(Box::new), publisher)))
    }

    /// Creates a publisher with statistics, of a type that is known only at run time, like
    /// [`NodeState::create_dynamic_publisher`](rclrs::NodeState::create_dynamic_publisher). The sizes of the
    /// publisher's messages are unknown: [`Metric::MessageSize`] is NaN, and a warning is logged. Returns the same
    /// errors as [`create_publisher`](Self::create_publisher), and an error if AMENT_PREFIX_PATH does not have the
    /// type.
    pub fn create_dynamic_publisher<'a>(
        &self,
        message_type: MessageTypeName,
        options: impl StatsOptions<PublisherOptions<'a>>,
    ) -> Result<StatsDynamicPublisher, StatisticsError> {
        let no_size = || -> Result<Infallible, String> {
            Err(format!("The sizes of {message_type} messages will be NaN: those of a dynamic publisher are not known"))
        };
        let (options, statistics) = options.split();
        let create = |options| {
            let publisher = self.running.node.create_dynamic_publisher(message_type.clone(), options)?;
            Ok((publisher.topic_name(), publisher))
        };
        let (publisher, _, source, publications) =
            self.create_any_publisher(options, statistics, create, no_size)?;
        Ok(Arc::new(StatsDynamicPublisherState::new(source, publications, publisher)))
    }

    /// Creates a publisher and its source. `create` returns the publisher and its topic. `find_size` is called if sizes
    /// are measured.
    fn create_any_publisher<'a, Publisher, Size>(
        &self,
        options: PublisherOptions<'a>,
        statistics: StatisticsOptions,
        create: impl FnOnce(PublisherOptions<'a>) -> Result<(String, Publisher), RclrsError>,
        find_size: impl FnOnce() -> Result<Size, String>,
    ) -> Result<CreatedPublisher<Publisher, Size>, StatisticsError> {
        statistics.check(SourceKind::Publisher)?;
        let given = options.topic.to_owned();
        let own = statistics.of_source();
        let statistics = self.with_metrics_for(&given, statistics, SourceKind::Publisher).or(&self.options);
        let to = self.publisher(&statistics)?;
        self.prepare_diagnostics(&statistics)?;
        let (topic, publisher) =
            create(options).map_err(|source| self.not_created(SourceKind::Publisher, &given, source))?;
        let size = self.find_size(&statistics, find_size);
        let measures_size = statistics.metrics.iter().flatten().any(|metric| *metric == Metric::MessageSize);
        let publications = Publications::new(statistics.first_period.unwrap_or_default(), measures_size);
        let publications = Arc::new(Windowed::new(publications));
        let name = self.source_name(statistics.source_name, &topic);
        let source = Source::new(name, Arc::clone(&publications) as _, None).of_topic(topic, &given);
        let source = self.keep(self.add_source(source, own, to, statistics.expectations));
        Ok((publisher, size, source, publications))
    }

    /// Returns the expectations of a source with this topic or name: the source's own expectations, or else the
    /// expectations in the file of expectations, or else the node's expectations. Conditions on the remapped name of
    /// the topic are missing, because the remapped name is unknown until the source is created.
    pub(super) fn expected(
        &self,
        given: &str,
        own: Option<&Expectations>,
        kind: SourceKind,
    ) -> Option<Expectations> {
        let (node, topic) =
            (self.running.node.fully_qualified_name(), fully_qualified(&self.running.node, given));
        let source = format!("{node}:{topic}");
        let names = Names { source: &source, plain_source: &source, topic: Some(&topic), given: Some(given) };
        match own.cloned().or_else(|| self.file_expectations(names, kind)) {
            Some(own) => Some(own.select(names, kind, true)),
            None => self.running.scheduler.expectations().select(names, kind),
        }
    }

    /// Returns the options. To their metrics, adds the metrics that the conditions on the topic need.
    fn with_metrics_for(
        &self,
        given: &str,
        statistics: StatisticsOptions,
        kind: SourceKind,
    ) -> StatisticsOptions {
        let expected = self.expected(given, statistics.expectations.as_ref(), kind);
        let Some(expected) = expected else { return statistics };
        let defaults = [Metric::MessageAge, Metric::MessagePeriod];
        let chosen = statistics.metrics.as_ref().or(self.options.metrics.as_ref());
        let mut metrics = chosen.cloned().unwrap_or_else(|| defaults.into());
        metrics.extend(expected.metrics().filter(|metric| Metric::OF_SUBSCRIPTIONS.contains(metric)));
        statistics.metrics(metrics)
    }

    /// If the source's options have expectations, creates the publisher of health on `/diagnostics`.
    pub(super) fn prepare_diagnostics(&self, statistics: &StatisticsOptions) -> Result<(), StatisticsError> {
        match self.diagnostics.as_ref().filter(|_| statistics.expectations.is_some()) {
            Some(publisher) => publisher.create(&self.running.node, diagnostics::qos()),
            None => Ok(()),
        }
    }

    /// Returns how to find the sizes of messages, if the metrics of these options contain [`Metric::MessageSize`]. If
    /// these options set no metrics, the options of the node decide. Warns if the encoding is unknown.
    fn find_size<Size>(
        &self,
        statistics: &StatisticsOptions,
        find: impl FnOnce() -> Result<Size, String>,
    ) -> Option<Size> {
        let metrics = statistics.metrics.as_ref().or(self.options.metrics.as_ref())?;
        let size = metrics.contains(&Metric::MessageSize).then(find)?;
        size.map_err(|warning| self.warn(&warning)).ok()
    }

    pub(super) fn warn(&self, warning: &str) {
        tracing::warn!("{warning}");
        log_warn!(self.running.node.logger(), "{warning}");
    }

    fn create<T: Message, Subscribed: Message, Scope: WorkScope + 'static>(
        &self,
        (options, statistics): (SubscriptionOptions<'_>, StatisticsOptions),
        subscribe: impl FnOnce(
            SubscriptionOptions<'_>,
            Probe<T>,
        ) -> Result<Arc<SubscriptionState<Subscribed, Scope>>, RclrsError>,
    ) -> Result<Arc<StatsSubscriptionState<T, Scope>>, StatisticsError> {
        let message_type = T::RmwMsg::TYPE_NAME.into();
        let stamp = StampField::find();
        match &stamp {
            Ok(Some(_)) => {}
            Ok(None) => statistics.check_without_header(T::RmwMsg::TYPE_NAME, self.options.age_source)?,
            Err(warning) => self.warn(warning),
        }
        let statistics = self.with_metrics_for(options.topic, statistics, SourceKind::Subscription);
        let size = self.find_size(&statistics, SerializedSize::of_received).map(Box::new);
        let subscribe = |options: SubscriptionOptions<'_>, recorder| {
            Ok(subscribe(options, Probe::new(stamp, size, recorder))? as _)
        };
        let (source, recorder, subscription) =
            self.create_any(message_type, (options, statistics), Box::new(subscribe))?;
        Ok(Arc::new(StatsSubscriptionState::new(source, recorder, subscription)))
    }

    /// Creates a subscription of a type (`package/msg/Name`) that may be known only at run time. This function is not
    /// generic, so that it is compiled only once for all subscriptions of a program.
    fn create_any(
        &self,
        message_type: Cow<'static, str>,
        (options, statistics): (SubscriptionOptions<'_>, StatisticsOptions),
        subscribe: Box<Subscribe<'_>>,
    ) -> Result<CreatedSubscription, StatisticsError> {
        statistics.check(SourceKind::Subscription)?;
        let own = statistics.of_source();
        let statistics = statistics.or(&self.options);
        let publisher = self.publisher(&statistics)?;
        self.prepare_diagnostics(&statistics)?;
        let given = options.topic.to_owned();
        let is_transient_local = options.qos.durability == QoSDurabilityPolicy::TransientLocal;
        let recorder = statistics.recorder().transient_local(is_transient_local);
        let recorder = Arc::new(Recorder::new(&given, recorder, self.simulated.clone(), &HostClock));
        // From here on, messages are measured, because messages may arrive before `subscribe` returns.
        let new = self.add_collector(Arc::clone(&recorder) as _, own, publisher);
        let subscription = subscribe(options, Arc::clone(&recorder))
            .map_err(|source| self.not_created(SourceKind::Subscription, &given, source))?;
        let topic = subscription.topic_name();
        let name = self.source_name(statistics.source_name.clone(), &topic);
        let request = Request { topic: topic.into(), message_type, qos: subscription.qos().into() };
        let check = PublisherCheck::new(&self.running.node, request);
        let source = Arc::new(Source::new(name, Arc::clone(&recorder) as _, Some(Box::new(check))));
        #[cfg(feature = "interfaces")]
        self.publish_losses(&source, &statistics)?;
        self.expect(&source, statistics.expectations);
        Ok((self.keep(new.complete(source)), recorder, subscription))
    }

    /// Begins to publish events about the messages that a subscription loses, if the subscription measures losses.
    #[cfg(feature = "interfaces")]
    fn publish_losses(
        &self,
        source: &Arc<Source>,
        statistics: &StatisticsOptions,
    ) -> Result<(), StatisticsError> {
        use crate::report::loss_events::{LossPublisher, TOPIC};

        let mut metrics = statistics.metrics.iter().flatten();
        if !metrics.any(|metric| *metric == Metric::PublicationSeqGap) || !statistics.publishes() {
            return Ok(());
        }
        self.running.scheduler.add_loss_events(source, || {
            let publisher = create_publisher(&self.running.node, PublisherOptions::new(TOPIC))?;
            Ok(Arc::new(LossPublisher(publisher)) as _)
        })
    }
}
