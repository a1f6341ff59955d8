// SPDX-License-Identifier: Apache-2.0

//! Every callback form of rclrs, with idiomatic and with `rmw` message types. Each measured subscription is compared
//! with a plain rclrs subscription with the same callback: both must receive the same messages in the same order.

use std::sync::{Arc, Mutex};

use rclrs::*;
use rclrs_topic_statistics::{
    AgeSource, MeasuredSubscriptionState, Metric, NodeStatistics, TopicStatisticsOptions, WindowStatistics,
};
use ros_env::{
    sensor_msgs::msg::{rmw::Imu as RmwImu, Imu},
    std_msgs::msg::{rmw::Int32 as RmwInt32, Int32},
};
use rosidl_runtime_rs::Message;
use test_support::{domain, middleware, node, wait_for, Program, Spinning};

/// The numbers of the messages that a callback received.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<i64>>>);

impl Log {
    fn push(&self, message: &impl Numbered) {
        self.0.lock().unwrap().push(message.number());
    }

    /// Logs a message that was received with `MessageInfo`.
    fn push_with(&self, message: &impl Numbered, info: &MessageInfo) {
        assert!(info.source_timestamp.is_some() && info.publication_sequence_number >= 1, "{info:?}");
        self.push(message);
    }

    fn numbers(&self) -> Vec<i64> {
        self.0.lock().unwrap().clone()
    }
}

trait Numbered {
    fn number(&self) -> i64;
}

impl Numbered for Imu {
    fn number(&self) -> i64 {
        assert_eq!(self.header.frame_id, "imu_link");
        self.linear_acceleration.x as i64
    }
}

impl Numbered for RmwImu {
    fn number(&self) -> i64 {
        assert_eq!(self.header.frame_id.to_string(), "imu_link");
        self.linear_acceleration.x as i64
    }
}

impl Numbered for Int32 {
    fn number(&self) -> i64 {
        self.data.into()
    }
}

impl Numbered for RmwInt32 {
    fn number(&self) -> i64 {
        self.data.into()
    }
}

/// The statistics of a measured subscription, for any message type.
trait Stats {
    fn received(&self) -> u64;
    fn latest(&self) -> Option<Arc<WindowStatistics>>;
}

impl<T: Message> Stats for MeasuredSubscriptionState<T> {
    fn received(&self) -> u64 {
        self.totals().received
    }

    fn latest(&self) -> Option<Arc<WindowStatistics>> {
        self.latest()
    }
}

/// One form: its name, the logs of the plain and of the measured subscription, and the statistics.
struct Form {
    name: &'static str,
    plain: Log,
    measured: Log,
    stats: Arc<dyn Stats>,
    /// Keeps the plain subscription alive.
    _plain: Box<dyn std::any::Any>,
}

/// The age of the stamps of `imu`, in milliseconds.
const STAMP_AGE: f64 = 50.0;

#[test]
fn every_callback_form_receives_the_messages_of_plain_rclrs_and_is_measured() {
    let domain = domain();
    let (executor, node) = node("forms", &[]);
    let statistics = NodeStatistics::with_options(
        &node,
        TopicStatisticsOptions::new().publish_period(std::time::Duration::from_millis(500)),
    )
    .unwrap();
    let plain_worker = node.create_worker(0_usize);
    let worker = node.create_worker(0_usize);
    // The age of types without a header is measured by the source timestamp.
    let by_source = || TopicStatisticsOptions::new().age_source(AgeSource::SourceTimestamp);
    let mut forms = vec![];

    macro_rules! form {
        ($name:literal, $kind:ident, $message:ident, $callback:expr) => {{
            let callback = $callback;
            let (plain, measured) = (Log::default(), Log::default());
            forms.push(Form {
                name: concat!(stringify!($kind), " ", stringify!($message), " ", $name),
                _plain: form!(@plain $kind, $message, callback(plain.clone())),
                stats: form!(@measured $kind, $message, callback(measured.clone())),
                plain,
                measured,
            });
        }};
        (@plain plain, $message:ident, $callback:expr) => {
            Box::new(node.create_subscription::<$message, _>(form!(@topic $message), $callback).unwrap())
        };
        (@plain future, $message:ident, $callback:expr) => {
            Box::new(node.create_async_subscription::<$message, _>(form!(@topic $message), $callback).unwrap())
        };
        (@plain worker, $message:ident, $callback:expr) => {
            Box::new(plain_worker.create_subscription::<$message, _>(form!(@topic $message), $callback).unwrap())
        };
        (@measured plain, $message:ident, $callback:expr) => {
            statistics.create_subscription::<$message, _>(form!(@options $message), $callback).unwrap()
        };
        (@measured future, $message:ident, $callback:expr) => {
            statistics.create_async_subscription::<$message, _>(form!(@options $message), $callback).unwrap()
        };
        (@measured worker, $message:ident, $callback:expr) => {
            statistics
                .create_worker_subscription::<$message, _, _>(&worker, form!(@options $message), $callback)
                .unwrap()
        };
        (@topic Imu) => { "imu".keep_last(1000) };
        (@topic RmwImu) => { "imu".keep_last(1000) };
        (@topic $number:ident) => { "number".keep_last(1000) };
        (@options Imu) => { "imu".keep_last(1000) };
        (@options RmwImu) => { "imu".keep_last(1000) };
        (@options $number:ident) => {
            rclrs_topic_statistics::IntoMeasuredOptions::topic_statistics(
                "number".keep_last(1000), by_source())
        };
    }
    let loans = !middleware::lacks_loans(&node, "callbacks of loaned messages");
    macro_rules! loaned {
        ($($form:tt)*) => {
            if loans {
                form!($($form)*);
            }
        };
    }
    macro_rules! forms_of {
        ($message:ident, $number:ident) => {
            form!("message", plain, $message, |log: Log| move |m: $message| log.push(&m));
            form!("message, info", plain, $message, |log: Log| move |m: $message, i: MessageInfo| log
                .push_with(&m, &i));
            form!("boxed", plain, $message, |log: Log| move |m: Box<$message>| log.push(&*m));
            form!("boxed, info", plain, $message, |log: Log| move |m: Box<$message>, i: MessageInfo| log
                .push_with(&*m, &i));
            // Fast DDS loans only types of a fixed size.
            loaned!("loaned", plain, $number, |log: Log| move |m: ReadOnlyLoanedMessage<$number>| log
                .push(&*m));
            loaned!("loaned, info", plain, $number, |log: Log| {
                move |m: ReadOnlyLoanedMessage<$number>, i: MessageInfo| log.push_with(&*m, &i)
            });

            form!("message", future, $message, |log: Log| move |m: $message| {
                let log = log.clone();
                async move { log.push(&m) }
            });
            form!("message, info", future, $message, |log: Log| move |m: $message, i: MessageInfo| {
                let log = log.clone();
                async move { log.push_with(&m, &i) }
            });
            form!("boxed", future, $message, |log: Log| move |m: Box<$message>| {
                let log = log.clone();
                async move { log.push(&*m) }
            });
            form!("boxed, info", future, $message, |log: Log| move |m: Box<$message>, i: MessageInfo| {
                let log = log.clone();
                async move { log.push_with(&*m, &i) }
            });
            loaned!("loaned", future, $number, |log: Log| move |m: ReadOnlyLoanedMessage<$number>| {
                let log = log.clone();
                async move { log.push(&*m) }
            });
            loaned!("loaned, info", future, $number, |log: Log| {
                move |m: ReadOnlyLoanedMessage<$number>, i: MessageInfo| {
                    let log = log.clone();
                    async move { log.push_with(&*m, &i) }
                }
            });

            form!("message", worker, $message, |log: Log| move |m: $message| log.push(&m));
            form!("message, info", worker, $message, |log: Log| move |m: $message, i: MessageInfo| log
                .push_with(&m, &i));
            form!("boxed", worker, $message, |log: Log| move |m: Box<$message>| log.push(&*m));
            form!("boxed, info", worker, $message, |log: Log| move |m: Box<$message>, i: MessageInfo| log
                .push_with(&*m, &i));
            loaned!("loaned", worker, $number, |log: Log| move |m: ReadOnlyLoanedMessage<$number>| log
                .push(&*m));
            loaned!("loaned, info", worker, $number, |log: Log| {
                move |m: ReadOnlyLoanedMessage<$number>, i: MessageInfo| log.push_with(&*m, &i)
            });
            form!("payload, message", worker, $message, |log: Log| move |calls: &mut usize, m: $message| {
                *calls += 1;
                log.push(&m)
            });
            form!("payload, message, info", worker, $message, |log: Log| {
                move |calls: &mut usize, m: $message, i: MessageInfo| {
                    *calls += 1;
                    log.push_with(&m, &i)
                }
            });
            form!("payload, boxed", worker, $message, |log: Log| {
                move |calls: &mut usize, m: Box<$message>| {
                    *calls += 1;
                    log.push(&*m)
                }
            });
            form!("payload, boxed, info", worker, $message, |log: Log| {
                move |calls: &mut usize, m: Box<$message>, i: MessageInfo| {
                    *calls += 1;
                    log.push_with(&*m, &i)
                }
            });
            loaned!("payload, loaned", worker, $number, |log: Log| {
                move |calls: &mut usize, m: ReadOnlyLoanedMessage<$number>| {
                    *calls += 1;
                    log.push(&*m)
                }
            });
            loaned!("payload, loaned, info", worker, $number, |log: Log| {
                move |calls: &mut usize, m: ReadOnlyLoanedMessage<$number>, i: MessageInfo| {
                    *calls += 1;
                    log.push_with(&*m, &i)
                }
            });
        };
    }
    forms_of!(Imu, Int32);
    forms_of!(RmwImu, RmwInt32);
    let signatures = if loans { 24 } else { 16 };
    assert_eq!(forms.len(), 2 * signatures, "two message layouts");

    let _spinning = Spinning::start(executor);
    let mut publisher = Program::start("publisher.py", &["--rate", "20", "--stamp-age", "0.05"], domain);
    // Where the machine is busy, a window may have few messages or late ones: then the next one is taken.
    let mut windows = vec![None; forms.len()];
    wait_for("window of every form with messages at 20 Hz", || {
        for (form, window) in forms.iter().zip(&mut windows) {
            *window = window.take().or_else(|| {
                form.stats.latest().filter(|latest| {
                    let period = latest.get(Metric::MessagePeriod).unwrap();
                    period.sample_count >= 5 && (period.average - 50.0).abs() < 25.0
                })
            });
        }
        windows.iter().all(Option::is_some) && forms.iter().all(|form| form.measured.numbers().len() >= 20)
    });
    for (form, window) in forms.iter().zip(windows) {
        let window = window.unwrap();
        let (age, period) =
            (window.get(Metric::MessageAge).unwrap(), window.get(Metric::MessagePeriod).unwrap());
        assert_eq!(age.sample_count, period.sample_count + 1, "{}: {window:?}", form.name);
        let least = if form.name.contains("Imu") { STAMP_AGE } else { 0.0 };
        assert!(age.minimum > least && age.average < least + 500.0, "{}: {window:?}", form.name);
    }

    publisher.send("stop");
    let mut last = vec![];
    wait_for("silence", || {
        let now: Vec<_> =
            forms.iter().flat_map(|form| [form.plain.numbers(), form.measured.numbers()]).collect();
        let ends: Vec<_> = now.iter().map(|numbers| numbers.last().copied()).collect();
        let is_silent = ends == last && ends.iter().all(|end| *end == ends[0]);
        last = ends;
        std::thread::sleep(std::time::Duration::from_millis(300));
        is_silent
    });
    for form in &forms {
        let (plain, measured) = (form.plain.numbers(), form.measured.numbers());
        let first = plain[0].max(measured[0]);
        let since =
            |numbers: &[i64]| numbers.iter().copied().filter(|number| *number >= first).collect::<Vec<_>>();
        assert_eq!(since(&plain), since(&measured), "{}: the same messages in the same order", form.name);
        assert_eq!(
            form.stats.received(),
            measured.len() as u64,
            "{}: every message is measured once",
            form.name
        );
    }
}
