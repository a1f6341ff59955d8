// SPDX-License-Identifier: Apache-2.0

//! Every callback form of rclrs and every form of publishing, with idiomatic, `rmw` and dynamic message types: each
//! subscription receives all messages in order, and all are measured.

use std::{borrow::Cow, sync::Mutex};

use rclrs_topic_statistics::{testing, AgeSource, MeasuredSubscription, SourceName};
use ros_env::{
    sensor_msgs::msg::{rmw::Imu as RmwImu, Imu},
    std_msgs::msg::{rmw::Int32 as RmwInt32, Int32},
};
use rosidl_runtime_rs::Message;
use test_support::middleware;

use crate::waiting::*;

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

impl Numbered for DynamicMessage {
    fn number(&self) -> i64 {
        let Some(Value::Simple(SimpleValue::Message(field))) = self.get("linear_acceleration") else {
            panic!()
        };
        let Some(Value::Simple(SimpleValue::Double(x))) = field.get("x") else { panic!() };
        *x as i64
    }
}

/// A message with that number, and a stamp of 1970.
fn imu(number: u64) -> Imu {
    let mut imu = Imu::default();
    imu.header.stamp.sec = 1;
    imu.linear_acceleration.x = number as f64;
    imu
}

fn layout(number: u64) -> RmwImu {
    Imu::into_rmw_message(Cow::Owned(imu(number))).into_owned()
}

fn dynamic(number: u64) -> DynamicMessage {
    DynamicMessage::convert_from_rmw_message(layout(number)).unwrap()
}

struct Form {
    name: String,
    numbers: Arc<Mutex<Vec<i64>>>,
    windows: Windows,
    /// Returns the messages and bytes that its subscription, which it keeps, has received.
    totals: Box<dyn Fn() -> [u64; 2]>,
}

#[test]
fn every_form_of_subscribing_and_publishing_is_measured() {
    let (executor, node) = node("forms", &[]);
    let options = || options().metrics(Metric::OF_SUBSCRIPTIONS);
    let statistics = NodeStatistics::with_options(&node, options()).unwrap();
    // The age of types without a header is measured by the source timestamp.
    let by_source = options().age_source(AgeSource::SourceTimestamp);
    let by_source = NodeStatistics::with_options(&node, by_source).unwrap();
    let worker = node.create_worker(0_usize);
    let mut forms = vec![];
    let mut add =
        |name: String, numbers, windows, totals| forms.push(Form { name, numbers, windows, totals });
    // A form: the function that creates it, the arguments before its callback, those of its callback, and its topic.
    macro_rules! form {
        (@call async $log:ident $message:ident) => {{
            let log = Arc::clone(&$log);
            async move { log.lock().unwrap().push($message.number()) }
        }};
        (@call sync $log:ident $message:ident) => {
            $log.lock().unwrap().push($message.number())
        };
        (
            $call:ident $create:ident($($argument:expr),*), ($($payload:ty)?), $message:ty, $($info:ty)?;
            $statistics:ident $topic:literal
        ) => {
            let numbers = Arc::<Mutex<Vec<i64>>>::default();
            let log = Arc::clone(&numbers);
            let callback = move |$(payload: $payload,)? message: $message $(, info: $info)?| {
                $( let _: $payload = payload; )?
                $( assert!(<$info>::clone(&info).source_timestamp.is_some()); )?
                form!(@call $call log message)
            };
            let topic = $topic.reliable().keep_all();
            let subscription = $statistics.$create($($argument,)* topic, callback).unwrap();
            let name = stringify!($create($($payload)?, $message, $($info)?)).to_owned();
            let windows = Windows::of(subscription.watch());
            let totals = move || [subscription.totals().received, subscription.totals().bytes.unwrap()];
            add(name, numbers, windows, Box::new(totals) as Box<dyn Fn() -> [u64; 2]>);
        };
    }
    let loans = !middleware::lacks_loans(&node, "callbacks of loaned messages");
    macro_rules! forms_of {
        ($call:ident $create:ident$arguments:tt, $payload:tt, $imu:ty, $number:ty) => {
            form!($call $create$arguments, $payload, $imu, ; statistics "imu");
            form!($call $create$arguments, $payload, $imu, MessageInfo; statistics "imu");
            form!($call $create$arguments, $payload, Box<$imu>, ; statistics "imu");
            form!($call $create$arguments, $payload, Box<$imu>, MessageInfo; statistics "imu");
            // Fast DDS loans only types of a fixed size.
            if loans {
                type Loaned = ReadOnlyLoanedMessage<$number>;
                form!($call $create$arguments, $payload, Loaned, ; by_source "number");
                form!($call $create$arguments, $payload, Loaned, MessageInfo; by_source "number");
            }
        };
        ($imu:ty, $number:ty) => {
            forms_of!(sync create_subscription(), (), $imu, $number);
            forms_of!(async create_async_subscription(), (), $imu, $number);
            forms_of!(sync create_worker_subscription(&worker), (), $imu, $number);
            forms_of!(sync create_worker_subscription(&worker), (&mut usize), $imu, $number);
        };
    }
    forms_of!(Imu, Int32);
    forms_of!(RmwImu, RmwInt32);
    let imu_type = || -> MessageTypeName { "sensor_msgs/msg/Imu".try_into().unwrap() };
    form!(sync create_dynamic_subscription(imu_type()), (), DynamicMessage, MessageInfo; statistics "imu");
    form!(async create_async_dynamic_subscription(imu_type()), (), DynamicMessage, MessageInfo; statistics "imu");
    form!(
        sync create_dynamic_worker_subscription(&worker, imu_type()), (&mut usize), DynamicMessage, MessageInfo;
        statistics "imu"
    );
    let of_number = if loans { 16 } else { 0 };
    assert_eq!(forms.len(), 2 * 16 + 3 + of_number, "two message layouts, and dynamic ones");

    let of_imu = || "imu".reliable().keep_all();
    let imus = statistics.create_publisher::<Imu>(of_imu()).unwrap();
    let layouts = statistics.create_publisher::<RmwImu>(of_imu()).unwrap();
    let dynamics = statistics.create_dynamic_publisher(imu_type(), of_imu()).unwrap();
    let numbers = statistics.create_publisher::<RmwInt32>("number".reliable().keep_all()).unwrap();
    let published = [imus.watch(), layouts.watch(), dynamics.watch(), numbers.watch()].map(Windows::of);
    assert_eq!((imus.topic_name(), dynamics.topic_name()), ("/imu".to_owned(), "/imu".to_owned()));
    assert_eq!(imus.source_name(), "/forms:/imu (36)");
    let mut ready = imus.notify_on_subscriber_ready();
    let mut reader = Reader::start(domain());
    let _spinning = Spinning::start(executor);
    wait_for("a subscriber", || matches!(ready.try_recv(), Ok(Some(()))));
    wait_for("subscriptions", || {
        let counts = [imus.get_subscription_count(), layouts.get_subscription_count()];
        let others = [dynamics.get_subscription_count(), numbers.get_subscription_count()];
        counts == [Ok(35), Ok(35)] && others == [Ok(35), Ok(of_number)]
    });
    // From one publisher after the other: what they publish together has no order.
    let is_number = |form: &Form| form.name.contains("Loaned");
    let wait_for_all = |numbers: bool, count: u64| {
        for form in forms.iter().filter(|form| is_number(form) == numbers) {
            wait_for("messages", || form.numbers.lock().unwrap().len() as u64 == count);
        }
    };
    imus.publish(&imu(1)).unwrap();
    imus.publish(imu(2)).unwrap();
    wait_for_all(false, 2);
    layouts.publish(&layout(3)).unwrap();
    layouts.publish(layout(4)).unwrap();
    wait_for_all(false, 4);
    (5..=MESSAGES).for_each(|number| dynamics.publish(dynamic(number)).unwrap());
    wait_for_all(false, MESSAGES);
    for data in 1..=MESSAGES as i32 {
        match numbers.can_loan_messages() {
            true => {
                let mut number = numbers.borrow_loaned_message().unwrap();
                number.data = data;
                number.publish().unwrap();
            }
            false => numbers.publish(RmwInt32 { data }).unwrap(),
        }
    }
    wait_for_all(true, MESSAGES);
    dynamics.publish(DynamicMessage::new("std_msgs/msg/String".try_into().unwrap()).unwrap()).unwrap_err();

    for form in &forms {
        let Form { name, numbers, windows, totals } = form;
        windows.wait_for(Metric::CallbackDuration, MESSAGES);
        assert_eq!(*numbers.lock().unwrap(), (1..=MESSAGES as i64).collect::<Vec<_>>(), "{name}");
        let (size, ages) = if is_number(form) { (8, 0.0..60_000.0) } else { (316, 1e12..1e13) };
        assert_eq!(totals(), [MESSAGES, MESSAGES * size], "{name}");
        let metrics = [Metric::MessagePeriod, Metric::MessageAge, Metric::SourceToCallback];
        assert_eq!(windows.totals(metrics), [MESSAGES - 1, MESSAGES, MESSAGES], "{name}");
        assert!(ages.contains(&windows.least(Metric::MessageAge)), "{name}");
    }
    for (windows, (count, size)) in published.iter().zip([(2, 316), (2, 316), (6, 0), (MESSAGES, 8)]) {
        windows.wait_for(Metric::PublishDuration, count);
        assert_eq!(windows.total(Metric::PublishPeriod), count - 1);
        assert!(windows.least(Metric::PublishDuration) > 0.0);
        if size > 0 {
            assert_eq!(windows.totals([Metric::MessageSize]), [count]);
            assert_eq!(
                [windows.least(Metric::MessageSize), windows.most(Metric::MessageSize)],
                [size as f64; 2]
            );
        }
    }
    wait_for("silence", || numbers.latest().unwrap().count == 0);
    let silent = numbers.latest().unwrap();
    assert!(silent.get(Metric::PublishDuration).unwrap().average.is_nan(), "{silent:?}");
    // Without the clock offset of the host.
    read_all(&mut reader, "/forms:/imu", &Metric::OF_SUBSCRIPTIONS[..10]);
    read_all(&mut reader, "/forms:/imu (36)", SourceKind::Publisher.metrics());

    let wrong = "imu".topic_statistics(options());
    let error = statistics.create_publisher::<Imu>(wrong).err().unwrap().to_string();
    let expected =
        "A publisher has no metric \"message_age\": it has publish_period, publish_duration_ms, message_size";
    assert_eq!(error, expected);
    let aged = "imu".topic_statistics(TopicStatisticsOptions::new().age_source(AgeSource::HeaderStamp));
    let error = statistics.create_publisher::<Imu>(aged).err().unwrap().to_string();
    assert_eq!(error, "A publisher has no age_source: it receives no messages");
    let unnamed = statistics.create_publisher::<Imu>("no topic").err().unwrap();
    assert!(matches!(&unnamed, StatisticsError::CreatePublisher { topic, .. } if topic == "no topic"));
    for name in ["no_such_msgs/msg/Imu", "sensor_msgs/msg/NoSuchType"] {
        let name = || -> MessageTypeName { name.try_into().unwrap() };
        let imu = statistics.create_dynamic_subscription(name(), "imu", |_, _| ());
        assert!(matches!(imu, Err(StatisticsError::CreateSubscription { .. })));
        let imu = statistics.create_dynamic_publisher(name(), "imu");
        assert!(matches!(imu, Err(StatisticsError::CreatePublisher { .. })));
    }
}

/// The options of one source: what differs from its node.
#[test]
fn a_source_has_options_of_its_own() {
    let (executor, node) = node("driver", &[]);
    let statistics = statistics(&node);
    let new = TopicStatisticsOptions::new;
    let off = new().source_name(SourceName::Custom("front".to_owned())).state(TopicStatisticsState::Disable);
    let off = statistics.create_publisher::<Int32>("number".topic_statistics(off)).unwrap();
    let quiet = "number".keep_last(7).topic_statistics(new().publish(false));
    let quiet: MeasuredSubscription<DynamicMessage> = statistics
        .create_dynamic_subscription("std_msgs/msg/Int32".try_into().unwrap(), quiet, |_, _| ())
        .unwrap();
    assert_eq!(quiet.qos(), QoSProfile::topics_default().keep_last(7));
    let of_rclrs: Option<DynamicSubscription> = testing::rclrs_subscription(&quiet);
    assert_eq!(of_rclrs.unwrap().topic_name(), off.topic_name());
    let [of_off, of_quiet] = [Windows::of(off.watch()), Windows::of(quiet.watch())];
    let mut reader = Reader::start(domain());
    let _spinning = Spinning::start(executor);
    wait_for("a subscription", || off.get_subscription_count() == Ok(1));
    off.publish(Int32 { data: 1 }).unwrap();
    off.set_state(TopicStatisticsState::NodeDefault);
    assert!(off.is_enabled() && off.source_name() == "front");
    off.publish(Int32 { data: 2 }).unwrap();
    of_off.wait_for(Metric::PublishDuration, 1);
    of_quiet.wait_for_more(1);
    read_all(&mut reader, "front", &[Metric::PublishPeriod, Metric::PublishDuration]);
    assert!(reader.metrics.iter().all(|window| window.source == "front"), "the other one is not published");
    assert_eq!((quiet.totals().received, quiet.totals().bytes), (2, None), "sizes are not asked for");
    assert_eq!(off.latest().unwrap().get(Metric::MessageSize), None);
}
