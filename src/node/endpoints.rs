// SPDX-License-Identifier: Apache-2.0

//! Subscriptions and publishers with statistics.

use std::{borrow::Cow, sync::Arc};

use rclrs::{
    log_warn, DynamicMessage, MessageInfo, MessageTypeName, PublisherOptions, RclrsError,
    SubscriptionOptions, Worker,
};
use rosidl_runtime_rs::{Message, RmwMessage};

use super::{publishers::create_publisher, NodeStatistics};
use crate::{
    error::StatisticsError,
    graph::{PublisherCheck, Request},
    health::{Kind, Names},
    measure::{
        callback::{InstrumentAsyncCallback, InstrumentCallback, InstrumentWorkerCallback},
        clock::HostClock,
        dynamic::{DynamicProbe, WithQos},
        dynamic_size::DynamicSize,
        probe::Probe,
        publisher::{Publications, StatsPublisher, StatsPublisherState},
        recorder::Recorder,
        size::SerializedSize,
        source::Source,
        stamp::StampField,
        subscription::{AnySubscription, StatsSubscription, StatsSubscriptionState},
        windowed::Windowed,
    },
    options::{IntoStatsSubscriptionOptions, StatsSubscriptionOptions, TopicStatisticsOptions},
    report::loss_events,
    window::Metric,
};

impl NodeStatistics {
    /// Creates a subscription with statistics, like
    /// [`NodeState::create_subscription`](rclrs::NodeState::create_subscription).
    ///
    /// The callback has any of the six signatures of rclrs: an [`Fn`] of the message, boxed, or as a
    /// [`ReadOnlyLoanedMessage`](rclrs::ReadOnlyLoanedMessage), alone or with [`MessageInfo`].
    ///
    /// Errors if an option is out of range, or if rclrs cannot create the subscription or the publisher of its statistics, for
    /// example because a topic name is invalid.
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

    /// Creates a subscription with an async callback and statistics, like
    /// [`NodeState::create_async_subscription`](rclrs::NodeState::create_async_subscription).
    ///
    /// The callback has the signatures of [`create_subscription`](Self::create_subscription), but is an [`FnMut`] and
    /// returns a future. The callback starts when the future is first polled.
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

    /// Creates a subscription on a worker with statistics, like
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

    /// Creates a subscription on a worker with statistics, of a type that is known only at run time, like
    /// [`WorkerState::create_dynamic_subscription`](rclrs::WorkerState::create_dynamic_subscription).
    ///
    /// Errors as [`create_subscription`](Self::create_subscription) does, and if AMENT_PREFIX_PATH has no such type.
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
        let options = self.with_expected_metrics(options.into_stats_subscription_options());
        let size = self.find_size(&options.statistics, || DynamicSize::find(&message_type));
        self.create_of(message_type.to_string().into(), options, |options, recorder| {
            let (qos, mut probe) = (options.qos, DynamicProbe::new(size, recorder));
            let subscription = worker.create_dynamic_subscription(
                message_type,
                options,
                move |payload: &mut Payload, message: DynamicMessage, info: MessageInfo| {
                    let running = probe.start(&message, &info);
                    callback(payload, message, info);
                    probe.end(running);
                },
            )?;
            Ok(Arc::new(WithQos { subscription, qos }))
        })
    }

    /// Creates a publisher with statistics, like [`NodeState::create_publisher`](rclrs::NodeState::create_publisher).
    ///
    /// Errors if rclrs cannot create it, for example because the topic name is invalid.
    pub fn create_publisher<'a, T: Message>(
        &self,
        options: impl Into<PublisherOptions<'a>>,
    ) -> Result<StatsPublisher<T>, StatisticsError> {
        self.create_publisher_with_options(options, TopicStatisticsOptions::new())
    }

    /// Creates a publisher with statistics whose options override those of the node. Of the metrics,
    /// [`Metric::MessageSize`] is measured in addition to a publisher's own; the others and the age source have no effect.
    ///
    /// Errors as [`create_publisher`](Self::create_publisher) does, and if an option is out of range.
    pub fn create_publisher_with_options<'a, T: Message>(
        &self,
        options: impl Into<PublisherOptions<'a>>,
        statistics: TopicStatisticsOptions,
    ) -> Result<StatsPublisher<T>, StatisticsError> {
        statistics.check()?;
        statistics.check_expectations(Kind::Publisher)?;
        let own = statistics.of_source();
        let options = options.into();
        let statistics = self.with_metrics_for(options.topic, statistics, Kind::Publisher).or(&self.options);
        let to = self.publisher(&statistics)?;
        self.prepare_diagnostics(&statistics)?;
        let publisher = create_publisher(&self.node, options)?;
        let size = self.find_size(&statistics, SerializedSize::of_published).map(Box::new);
        let measures_size = statistics.metrics.iter().flatten().any(|of| *of == Metric::MessageSize);
        let publications = Publications::new(statistics.first_period.unwrap_or_default(), measures_size);
        let publications = Arc::new(Windowed::new(publications));
        let name = self.source_name(statistics.source_name, &publisher.topic_name());
        let source = Source::new(name, Arc::clone(&publications) as _, None);
        let source = self.add_source(source, own, to, statistics.expectations);
        Ok(Arc::new(StatsPublisherState::new(source, publications, size, publisher)))
    }

    /// Returns the options with the metrics that the conditions on the topic need.
    fn with_expected_metrics<'a>(
        &self,
        StatsSubscriptionOptions { subscription, statistics }: StatsSubscriptionOptions<'a>,
    ) -> StatsSubscriptionOptions<'a> {
        let statistics = self.with_metrics_for(subscription.topic, statistics, Kind::Subscription);
        StatsSubscriptionOptions { subscription, statistics }
    }

    /// Returns the options with the metrics that the conditions on a topic need. Its resolved name is not known before the
    /// subscription is created: a condition that has the name after a remapping finds only what is measured anyway.
    fn with_metrics_for(
        &self,
        given: &str,
        statistics: TopicStatisticsOptions,
        kind: Kind,
    ) -> TopicStatisticsOptions {
        let node = self.node.fully_qualified_name();
        let topic = match (given.strip_prefix('~'), given.starts_with('/')) {
            (Some(rest), _) => format!("{node}{rest}"),
            (None, true) => given.to_owned(),
            (None, false) => format!("{}/{given}", self.node.namespace().trim_end_matches('/')),
        };
        let source = format!("{node}:{topic}");
        let names = Names { source: &source, topic: Some(&topic), given: Some(given) };
        let expected = match &statistics.expectations {
            Some(own) => Some(own.of(names, true)),
            None => self.scheduler.expectations().of(names, kind == Kind::Subscription),
        };
        let Some(expected) = expected else { return statistics };
        let defaults = [Metric::MessageAge, Metric::MessagePeriod];
        let chosen = statistics.metrics.as_ref().or(self.options.metrics.as_ref());
        let mut metrics = chosen.cloned().unwrap_or_else(|| defaults.into());
        metrics.extend(expected.metrics().filter(|metric| Metric::OF_SUBSCRIPTIONS.contains(metric)));
        statistics.metrics(metrics)
    }

    /// Creates the publisher of health, if something is expected by a source's own options.
    fn prepare_diagnostics(&self, statistics: &TopicStatisticsOptions) -> Result<(), StatisticsError> {
        match self.diagnostics.as_ref().filter(|_| statistics.expectations.is_some()) {
            Some(publisher) => publisher.create(&self.node),
            None => Ok(()),
        }
    }

    /// Returns how to find the sizes of messages, if these options, or else the node's, have them measured. Warns if it is not known.
    fn find_size<Size>(
        &self,
        statistics: &TopicStatisticsOptions,
        find: impl FnOnce() -> Result<Size, String>,
    ) -> Option<Size> {
        let metrics = statistics.metrics.as_ref().or(self.options.metrics.as_ref())?;
        let size = metrics.contains(&Metric::MessageSize).then(find)?;
        size.map_err(|warning| self.warn(&warning)).ok()
    }

    /// Warns the developer and the operator.
    fn warn(&self, warning: &str) {
        tracing::warn!("{warning}");
        log_warn!(self.node.logger(), "{warning}");
    }

    fn create<T: Message, Subscription: AnySubscription + 'static>(
        &self,
        options: StatsSubscriptionOptions<'_>,
        subscribe: impl FnOnce(SubscriptionOptions<'_>, Probe<T>) -> Result<Arc<Subscription>, RclrsError>,
    ) -> Result<StatsSubscription<T>, StatisticsError> {
        let message_type = T::RmwMsg::TYPE_NAME.into();
        let stamp = StampField::find().unwrap_or_else(|warning| {
            self.warn(&warning);
            None
        });
        let options = self.with_expected_metrics(options);
        let size = self.find_size(&options.statistics, SerializedSize::of_received).map(Box::new);
        self.create_of(message_type, options, |options, recorder| {
            subscribe(options, Probe::new(stamp, size, recorder))
        })
    }

    /// Creates a subscription of a type (`package/msg/Name`) that may be known only at run time.
    fn create_of<T, Subscription: AnySubscription + 'static>(
        &self,
        message_type: Cow<'static, str>,
        options: StatsSubscriptionOptions<'_>,
        subscribe: impl FnOnce(SubscriptionOptions<'_>, Arc<Recorder>) -> Result<Arc<Subscription>, RclrsError>,
    ) -> Result<StatsSubscription<T>, StatisticsError> {
        let StatsSubscriptionOptions { subscription: options, statistics } = options;
        statistics.check()?;
        statistics.check_expectations(Kind::Subscription)?;
        let own = statistics.of_source();
        let statistics = statistics.or(&self.options);
        let publisher = self.publisher(&statistics)?;
        self.prepare_diagnostics(&statistics)?;
        let measures_losses = statistics.metrics.iter().flatten().any(|of| *of == Metric::PublicationSeqGap);
        let publishes_losses = measures_losses && statistics.publishes();

        let recorder =
            Arc::new(Recorder::new(options.topic, &statistics, self.simulated.clone(), &HostClock));
        // First: messages may arrive before the subscription is returned.
        let new = self.add_collector(Arc::clone(&recorder) as _, own, publisher);
        let topic = options.topic.to_owned();
        let subscription = subscribe(options, Arc::clone(&recorder)).map_err(|source| {
            StatisticsError::CreateSubscription { topic, node: self.node.fully_qualified_name(), source }
        })?;

        let topic = subscription.topic_name();
        let name = self.source_name(statistics.source_name, &topic);
        let check =
            PublisherCheck::new(Request { topic: topic.into(), message_type, qos: subscription.qos() });
        let source = Arc::new(Source::new(name, Arc::clone(&recorder) as _, Some(check)));
        if publishes_losses {
            self.scheduler.add_loss_events(&source, || {
                create_publisher(&self.node, PublisherOptions::new(loss_events::TOPIC))
            })?;
        }
        if let Some(expectations) = statistics.expectations {
            self.scheduler.expect(&source, expectations);
        }
        Ok(Arc::new(StatsSubscriptionState::new(new.complete(source), recorder, subscription)))
    }
}
