use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rclrs::{
    AnySubscriptionCallback, Clock, ClockType, IntoNodeSubscriptionCallback, MessageInfo,
    NodeSubscriptionCallback, QoSProfile, Subscription,
};
use rosidl_runtime_rs::Message;

use crate::{
    collector::{AgeCollector, PeriodCollector},
    stamp::StampField,
    window::{Summary, Window},
};

/// A subscription whose messages are measured.
///
/// Create one using [`NodeStatistics::create_subscription`](crate::NodeStatistics::create_subscription). Like
/// [`rclrs::Subscription`] it is a handle: the subscription ends, and leaves the statistics, when the last clone is
/// dropped.
pub type StatsSubscription<T> = Arc<StatsSubscriptionState<T>>;

/// The inner state of a [`StatsSubscription`].
pub struct StatsSubscriptionState<T: Message> {
    subscription: Subscription<T::RmwMsg>,
    /// Held, not read: the list of live subscriptions in `NodeStatistics` has a weak reference to this.
    _measured: Arc<Measured>,
}

impl<T: Message> StatsSubscriptionState<T> {
    pub(crate) fn new(subscription: Subscription<T::RmwMsg>, measured: Arc<Measured>) -> Self {
        Self { subscription, _measured: measured }
    }

    /// Returns the topic name of the subscription, resolved and remapped.
    pub fn topic_name(&self) -> String {
        self.subscription.topic_name()
    }

    /// Returns the QoS settings of the subscription.
    pub fn qos(&self) -> QoSProfile {
        self.subscription.qos()
    }
}

/// A subscription as the statistics see it.
pub(crate) struct Measured {
    /// The value of `measurement_source_name`.
    pub(crate) source: String,
    pub(crate) recorder: Arc<Recorder>,
}

/// The figures of one subscription in one window.
pub(crate) struct Finished {
    pub(crate) window: Window,
    pub(crate) age: Summary,
    pub(crate) period: Summary,
}

/// What a callback records into and the window's timer reads from.
pub(crate) struct Recorder {
    /// The node's clock, if it runs on simulated time; otherwise ROS time is system time (as rclrs has it, and
    /// `use_sim_time` cannot change while a node lives), and one clock reading serves both.
    simulated: Option<Clock>,
    collectors: Mutex<Collectors>,
}

struct Collectors {
    age: AgeCollector,
    period: PeriodCollector,
    window_start: i64,
}

impl Recorder {
    /// Starts the first window now.
    pub(crate) fn new(clock: Clock) -> Self {
        let simulated = matches!(clock.clock_type(), ClockType::RosTime).then_some(clock);
        let window_start = system_time();
        let collectors =
            Collectors { age: AgeCollector::default(), period: PeriodCollector::default(), window_start };
        Self { simulated, collectors: Mutex::new(collectors) }
    }

    /// Records a message stamped at `stamp` (nanoseconds, 0 if it has none), whose callback's body starts now.
    #[inline]
    pub(crate) fn record(&self, stamp: i64) {
        let mut collectors = self.lock();
        // Read under the lock, as a window's stop is: a message belongs to the window that its time lies in.
        let now = system_time();
        let ros_now = self.simulated.as_ref().map_or(now, |clock| clock.now().nsec);
        collectors.age.accept(stamp, ros_now);
        collectors.period.accept(now);
    }

    /// Ends the window now and starts the next.
    pub(crate) fn end_window(&self) -> Finished {
        let mut collectors = self.lock();
        let stop = system_time();
        let start = std::mem::replace(&mut collectors.window_start, stop);
        Finished {
            window: Window { start, stop },
            age: collectors.age.take(),
            period: collectors.period.take(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Collectors> {
        // Nothing under the lock can panic, and the collectors are whole after every step.
        self.collectors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The system clock, in nanoseconds since the epoch; 0 if it is set to before that or past the year 2262.
fn system_time() -> i64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_nanos()).unwrap_or_default()
}

/// A callback that can be measured: `Fn(T)` or `Fn(T, MessageInfo)`, as rclrs takes it.
///
/// User code never needs to call or to implement this.
pub trait InstrumentCallback<T: Message, Args>: Send + Sync + Sized + 'static {
    /// Wraps the callback.
    #[doc(hidden)]
    fn instrument(self, probe: Probe<T>) -> Instrumented<T>;
}

/// What measures the messages of one subscription.
pub struct Probe<T: Message> {
    stamp: Option<StampField<T::RmwMsg>>,
    recorder: Arc<Recorder>,
}

impl<T: Message> Probe<T> {
    pub(crate) fn new(recorder: Arc<Recorder>) -> Self {
        Self { stamp: StampField::find(), recorder }
    }

    /// Returns a message's stamp in nanoseconds, 0 if it has none, and the message as the callback takes it.
    #[inline]
    fn open(&self, message: T::RmwMsg) -> (i64, T) {
        let stamp = self.stamp.as_ref().map_or(0, |field| field.read(&message));
        (stamp, T::from_rmw_message(message))
    }
}

/// A wrapped callback.
///
/// It takes the message in the C layout, where the stamp is found, and converts it where rclrs would.
pub struct Instrumented<T: Message>(NodeSubscriptionCallback<T::RmwMsg>);

impl<T: Message> IntoNodeSubscriptionCallback<T::RmwMsg, Instrumented<T>> for Instrumented<T> {
    fn into_node_subscription_callback(self) -> AnySubscriptionCallback<T::RmwMsg, ()> {
        self.0.into()
    }
}

impl<T, Func> InstrumentCallback<T, (T,)> for Func
where
    T: Message,
    Func: Fn(T) + Send + Sync + 'static,
{
    fn instrument(self, probe: Probe<T>) -> Instrumented<T> {
        let shared = Arc::new((self, probe));
        Instrumented(NodeSubscriptionCallback::Regular(Box::new(move |message| {
            let (stamp, message) = shared.1.open(message);
            let shared = Arc::clone(&shared);
            Box::pin(async move {
                let (callback, probe) = &*shared;
                probe.recorder.record(stamp);
                callback(message);
            })
        })))
    }
}

impl<T, Func> InstrumentCallback<T, (T, MessageInfo)> for Func
where
    T: Message,
    Func: Fn(T, MessageInfo) + Send + Sync + 'static,
{
    fn instrument(self, probe: Probe<T>) -> Instrumented<T> {
        let shared = Arc::new((self, probe));
        Instrumented(NodeSubscriptionCallback::RegularWithMessageInfo(Box::new(move |message, info| {
            let (stamp, message) = shared.1.open(message);
            let shared = Arc::clone(&shared);
            Box::pin(async move {
                let (callback, probe) = &*shared;
                probe.recorder.record(stamp);
                callback(message, info);
            })
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stop_of_a_window_is_the_start_of_the_next() {
        let recorder = Recorder::new(Clock::system());
        let windows: Vec<_> = (0..3).map(|_| recorder.end_window().window).collect();
        assert_eq!((windows[0].stop, windows[1].stop), (windows[1].start, windows[2].start));
    }

    #[test]
    fn n_messages_of_a_window_are_n_ages_and_n_minus_1_periods() {
        let recorder = Recorder::new(Clock::system());
        for _ in 0..3 {
            recorder.record(system_time());
        }
        let finished = recorder.end_window();
        assert_eq!((finished.age.sample_count, finished.period.sample_count), (3, 2));
        assert!(finished.age.maximum < 1000.0 && finished.age.minimum >= 0.0, "{:?}", finished.age);
    }

    #[test]
    fn ages_are_measured_on_simulated_time_and_periods_are_not() {
        let (clock, source) = Clock::with_source();
        let recorder = Recorder::new(clock);
        recorder.record(5);
        assert_eq!(recorder.end_window().age.sample_count, 0, "no time was received yet");

        source.set_ros_time_override(12_000_000);
        recorder.record(5_000_000);
        recorder.record(5_000_000);
        let finished = recorder.end_window();
        assert_eq!((finished.age.average, finished.age.sample_count), (7.0, 2));
        assert!(finished.period.average < 1000.0 && finished.period.sample_count == 1);
    }
}
