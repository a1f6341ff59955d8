use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use rclrs::{
    IntoPrimitiveOptions, Node, Publisher, PublisherOptions, SubscriptionOptions, Worker, WorkerTimer,
};
use ros_env::statistics_msgs::msg::MetricsMessage;
use rosidl_runtime_rs::Message;

use crate::{
    message::metrics_message,
    subscription::{
        Finished, InstrumentCallback, Measured, Probe, Recorder, StatsSubscription, StatsSubscriptionState,
    },
    window::{MESSAGE_AGE, MESSAGE_PERIOD},
    StatisticsError,
};

/// rclcpp's default topic of statistics.
const PUBLISH_TOPIC: &str = "/statistics";
/// rclcpp's default window.
const PUBLISH_PERIOD: Duration = Duration::from_secs(1);
/// The messages of one window that wait in the publisher for slow readers: two for each of 1000 subscriptions.
const PUBLISH_DEPTH: u32 = 2000;

/// The statistics of a node's subscriptions: one publisher and one timer for all of them.
///
/// The windows (1 s) are ended, and published on `/statistics`, by a worker of its own: a callback that blocks the
/// executor does not silence the statistics, and publishing never delays a callback. The executor of the node has
/// to be spinning.
///
/// Dropping this ends the publishing; the subscriptions that were created by it live on, unmeasured.
pub struct NodeStatistics {
    node: Node,
    subscriptions: Arc<Subscriptions>,
    /// Ends the windows, as long as it lives, on the worker's thread.
    _timer: WorkerTimer<()>,
    _worker: Worker<()>,
}

/// The live subscriptions.
type Subscriptions = Mutex<Vec<Weak<Measured>>>;

impl NodeStatistics {
    /// Creates the publisher and the timer of a node's statistics.
    ///
    /// Errors if rclrs cannot create one of them: if the node's context is shut down, for example.
    pub fn new(node: &Node) -> Result<Self, StatisticsError> {
        let options: PublisherOptions = PUBLISH_TOPIC.keep_last(PUBLISH_DEPTH).reliable().into();
        let publisher = node.create_publisher::<MetricsMessage>(options).map_err(|source| {
            let (topic, node) = (PUBLISH_TOPIC.to_owned(), node.fully_qualified_name());
            StatisticsError::CreatePublisher { topic, node, source }
        })?;
        let subscriptions = Arc::new(Subscriptions::default());
        let worker = node.create_worker(());
        let timer = worker
            .create_timer_repeating(PUBLISH_PERIOD, {
                let subscriptions = Arc::clone(&subscriptions);
                move || end_window(&subscriptions, &publisher)
            })
            .map_err(|source| StatisticsError::CreateTimer { node: node.fully_qualified_name(), source })?;
        Ok(Self { node: Arc::clone(node), subscriptions, _timer: timer, _worker: worker })
    }

    /// Creates a subscription that is measured; in all else it is one of
    /// [`create_subscription`](rclrs::NodeState::create_subscription) of the node.
    ///
    /// The callback takes the message, with or without [`MessageInfo`](rclrs::MessageInfo).
    ///
    /// Errors if rclrs cannot create the subscription: if the topic name is empty or not valid, for example.
    pub fn create_subscription<'a, T, Args>(
        &self,
        options: impl Into<SubscriptionOptions<'a>>,
        callback: impl InstrumentCallback<T, Args>,
    ) -> Result<StatsSubscription<T>, StatisticsError>
    where
        T: Message,
    {
        let options = options.into();
        let topic = options.topic.to_owned();
        let recorder = Arc::new(Recorder::new(self.node.get_clock()));
        let callback = callback.instrument(Probe::new(Arc::clone(&recorder)));
        let subscription = self.node.create_subscription(options, callback).map_err(|source| {
            StatisticsError::CreateSubscription { topic, node: self.node.fully_qualified_name(), source }
        })?;

        let source = format!("{}{}", self.node.name(), subscription.topic_name());
        let measured = Arc::new(Measured { source, recorder });
        let mut subscriptions = self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner);
        subscriptions.push(Arc::downgrade(&measured));
        Ok(Arc::new(StatsSubscriptionState::new(subscription, measured)))
    }
}

/// Ends the window of every live subscription, and publishes what it says.
fn end_window(subscriptions: &Subscriptions, publisher: &Publisher<MetricsMessage>) {
    let live: Vec<Arc<Measured>> = {
        let mut subscriptions = subscriptions.lock().unwrap_or_else(PoisonError::into_inner);
        subscriptions.retain(|subscription| subscription.strong_count() > 0);
        subscriptions.iter().filter_map(Weak::upgrade).collect()
    };
    // Windows first, messages after: publishing takes its time, and the windows should end together.
    let finished: Vec<Finished> = live.iter().map(|measured| measured.recorder.end_window()).collect();
    for (Measured { source, .. }, Finished { window, age, period }) in
        live.iter().map(Arc::as_ref).zip(finished)
    {
        for (metric, summary) in [(MESSAGE_AGE, age), (MESSAGE_PERIOD, period)] {
            if let Err(error) = publisher.publish(metrics_message(source, metric, window, &summary)) {
                tracing::warn!("The {} of {source} could not be published: {error}", metric.name);
            }
        }
    }
}
