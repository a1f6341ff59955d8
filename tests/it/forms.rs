// SPDX-License-Identifier: Apache-2.0

//! Every callback form of rclrs, with idiomatic and with `rmw` message types: each receives all messages in order, and
//! is measured.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rclrs::*;
use rclrs_topic_statistics::{AgeSource, FirstPeriod, Metric, NodeStatistics, TopicStatisticsOptions};
use ros_env::{
    builtin_interfaces::msg::Time,
    sensor_msgs::msg::{rmw::Imu as RmwImu, Imu},
    std_msgs::msg::{rmw::Int32 as RmwInt32, Header, Int32},
};
use test_support::{middleware, node, wait_for, Spinning};

use crate::waiting::Windows;

/// The number of messages on each topic.
const MESSAGES: u64 = 10;

trait Numbered {
    fn number(&self) -> i64;
}

macro_rules! numbered {
    ($($message:ident: $($field:ident).+),*) => { $(
        impl Numbered for $message {
            fn number(&self) -> i64 {
                self.$($field).+ as i64
            }
        }
    )* };
}

numbered!(Imu: linear_acceleration.x, RmwImu: linear_acceleration.x, Int32: data, RmwInt32: data);

struct Form {
    name: String,
    numbers: Arc<Mutex<Vec<i64>>>,
    windows: Windows,
    /// The messages and bytes that its subscription, which it keeps, has received.
    totals: Box<dyn Fn() -> [u64; 2]>,
}

#[test]
fn every_callback_form_receives_all_messages_and_is_measured() {
    let (executor, node) = node("forms", &[]);
    let options = TopicStatisticsOptions::new()
        .publish_period(Duration::from_millis(100))
        .first_period(FirstPeriod::CarriedOver)
        .metrics(Metric::OF_SUBSCRIPTIONS);
    // The age of types without a header is measured by the source timestamp.
    let by_stamp = NodeStatistics::with_options(&node, options.clone()).unwrap();
    let by_source =
        NodeStatistics::with_options(&node, options.age_source(AgeSource::SourceTimestamp)).unwrap();
    let worker = node.create_worker(0_usize);
    let mut forms = vec![];
    // A form: the function that creates it, with a worker or without; the arguments of its callback; its topic.
    macro_rules! form {
        (@call async $log:ident $message:ident) => {{
            let log = Arc::clone(&$log);
            async move { log.lock().unwrap().push($message.number()) }
        }};
        (@call sync $log:ident $message:ident) => {
            $log.lock().unwrap().push($message.number())
        };
        ($create:ident($($worker:ident)?) $call:ident, ($($payload:ty)?), $message:ty, $($info:ty)?; $statistics:ident $topic:literal) => {
            let numbers = Arc::<Mutex<Vec<i64>>>::default();
            let log = Arc::clone(&numbers);
            let callback = move |$(payload: $payload,)? message: $message $(, info: $info)?| {
                $( let _: $payload = payload; )?
                $( assert!(<$info>::clone(&info).publication_sequence_number >= 1); )?
                form!(@call $call log message)
            };
            let subscription = $statistics.$create($(&$worker,)? $topic.reliable().keep_all(), callback).unwrap();
            forms.push(Form {
                name: format!("{} {:?}", stringify!($create $($payload)? $message $($info)?), forms.len()),
                numbers,
                windows: Windows::of(subscription.watch()),
                totals: Box::new(move || [subscription.totals().received, subscription.totals().bytes.unwrap()]),
            });
        };
    }
    let loans = !middleware::lacks_loans(&node, "callbacks of loaned messages");
    macro_rules! forms_of {
        ($create:ident($($worker:ident)?) $call:ident, $payload:tt, $imu:ty, $number:ty) => {
            form!($create($($worker)?) $call, $payload, $imu, ; by_stamp "imu");
            form!($create($($worker)?) $call, $payload, $imu, MessageInfo; by_stamp "imu");
            form!($create($($worker)?) $call, $payload, Box<$imu>, ; by_stamp "imu");
            form!($create($($worker)?) $call, $payload, Box<$imu>, MessageInfo; by_stamp "imu");
            // Fast DDS loans only types of a fixed size.
            if loans {
                form!($create($($worker)?) $call, $payload, ReadOnlyLoanedMessage<$number>, ; by_source "number");
                form!($create($($worker)?) $call, $payload, ReadOnlyLoanedMessage<$number>, MessageInfo; by_source "number");
            }
        };
        ($imu:ty, $number:ty) => {
            forms_of!(create_subscription() sync, (), $imu, $number);
            forms_of!(create_async_subscription() async, (), $imu, $number);
            forms_of!(create_worker_subscription(worker) sync, (), $imu, $number);
            forms_of!(create_worker_subscription(worker) sync, (&mut usize), $imu, $number);
        };
    }
    forms_of!(Imu, Int32);
    forms_of!(RmwImu, RmwInt32);
    let of_number = if loans { 16 } else { 0 };
    assert_eq!(forms.len(), 32 + of_number, "two message layouts");

    let imus = node.create_publisher::<Imu>("imu".reliable().keep_all()).unwrap();
    let numbers = node.create_publisher::<Int32>("number".reliable().keep_all()).unwrap();
    let _spinning = Spinning::start(executor);
    wait_for("subscriptions", || {
        let counts = [imus.get_subscription_count(), numbers.get_subscription_count()];
        counts.map(Result::unwrap) == [32, of_number]
    });
    for number in 1..=MESSAGES {
        // A stamp of half a second ago.
        let stamp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() - Duration::from_millis(500);
        let stamp = Time { sec: stamp.as_secs() as i32, nanosec: stamp.subsec_nanos() };
        let mut imu = Imu { header: Header { stamp, frame_id: "abc".into() }, ..Default::default() };
        imu.linear_acceleration.x = number as f64;
        imus.publish(imu).unwrap();
        numbers.publish(Int32 { data: number as i32 }).unwrap();
    }
    for Form { name, numbers, windows, totals } in &forms {
        wait_for("messages", || numbers.lock().unwrap().len() as u64 >= MESSAGES);
        windows.wait_for(Metric::CallbackDuration, MESSAGES);
        assert_eq!(*numbers.lock().unwrap(), (1..=MESSAGES as i64).collect::<Vec<_>>(), "{name}");
        let is_imu = name.contains("Imu");
        assert_eq!(totals(), [MESSAGES, MESSAGES * if is_imu { 316 } else { 8 }], "{name}");
        let metrics = [Metric::MessagePeriod, Metric::MessageAge, Metric::SourceToCallback];
        assert_eq!(windows.totals(metrics), [MESSAGES - 1, MESSAGES, MESSAGES], "{name}");
        let ages = (windows.least(Metric::MessageAge), windows.most(Metric::MessageAge));
        assert!(ages.0 >= if is_imu { 500.0 } else { 0.0 } && ages.1 < 10_000.0, "{name}: {ages:?}");
    }
}
