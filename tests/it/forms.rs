// SPDX-License-Identifier: Apache-2.0

//! Tests every form of callback and of publishing in rclrs, with idiomatic, `rmw` and dynamic message types. Each
//! subscription must receive all messages in order, and all messages must be measured.

use std::borrow::Cow;

use ros_env::{sensor_msgs::msg::rmw::Imu as RmwImu, std_msgs::msg::rmw::Int32 as RmwInt32};
use rosidl_runtime_rs::Message;

use crate::waiting::*;

const MESSAGES: u64 = 10;

/// Returns a message whose stamp is in 2001, so that its age is not that from the source timestamp.
fn imu() -> Imu {
    let mut imu = Imu::default();
    imu.header.stamp.sec = 1_000_000_000;
    imu
}

/// A subscription: the form of its callback, the number of messages that the callback has received, the windows, and a
/// function that returns the messages and bytes received.
type Form = (&'static str, Arc<AtomicU64>, Windows, Box<dyn Fn() -> [u64; 2]>);

#[test]
fn every_form_of_subscribing_and_publishing_is_measured() {
    let (executor, node) = node("forms", &[]);
    // Only two sources publish their windows, because a reader could not read the windows of all sources fast enough.
    let options = || options().metrics(Metric::OF_SUBSCRIPTIONS).publish(false);
    let shown = || StatisticsOptions::new().publish(true);
    let statistics = NodeStatistics::with_options(&node, options()).unwrap();
    // Types without a header have no stamp, so their ages are measured from the source timestamp.
    let by_source = options().age_source(AgeSource::SourceTimestamp);
    let by_source = NodeStatistics::with_options(&node, by_source).unwrap();
    let worker = node.create_worker(0_usize);
    let mut forms: Vec<Form> = vec![];
    // Creates the subscription of a form: the `create_*` method, its arguments, and the callback. With `$set`, the
    // subscription is created with `$other`, and the method `$set` then sets the callback.
    macro_rules! created {
        ($statistics:ident.$create:ident($($argument:expr),*; $other:ident, $callback:ident)) => {{
            let _not_used = $other;
            $statistics.$create($($argument,)* $callback).unwrap()
        }};
        ($statistics:ident.$create:ident($($argument:expr),*; $other:ident, $callback:ident) $set:ident) => {{
            let subscription = $statistics.$create($($argument,)* $other).unwrap();
            subscription.$set($callback).unwrap();
            subscription
        }};
    }
    macro_rules! form {
        (
            $end:expr, $create:ident($($argument:expr),*), ($($payload:ty)?), $message:ty, $($info:ty)?;
            $statistics:ident $topic:literal $($set:ident)?
        ) => {
            let received = Arc::<AtomicU64>::default();
            let count = Arc::clone(&received);
            let callback = move |$(_: $payload,)? _: $message $(, info: $info)?| {
                $( assert!(<$info>::clone(&info).source_timestamp.is_some()); )?
                count.fetch_add(1, Ordering::Relaxed);
                $end
            };
            let topic = $topic.reliable().keep_all();
            let other = |$(_: $payload,)? _: $message $(, _: $info)?| $end;
            let subscription = created!($statistics.$create($($argument,)* topic; other, callback) $($set)?);
            let windows = Windows::collect(subscription.statistics().watch());
            let totals = move || [subscription.statistics().totals().unwrap().received, subscription.statistics().totals().unwrap().bytes.unwrap()];
            let name = stringify!($create($($payload)?, $message, $($info)?));
            forms.push((name, received, windows, Box::new(totals)));
        };
    }
    let loans = !middleware::lacks_loans(&node, "callbacks of loaned messages");
    macro_rules! forms_of {
        ($end:expr, $create:ident$arguments:tt, $payload:tt, $imu:ty, $number:ty $(, $set:ident)?) => {
            form!($end, $create$arguments, $payload, $imu, ; statistics "imu" $($set)?);
            form!($end, $create$arguments, $payload, $imu, MessageInfo; statistics "imu" $($set)?);
            form!($end, $create$arguments, $payload, Box<$imu>, ; statistics "imu" $($set)?);
            form!($end, $create$arguments, $payload, Box<$imu>, MessageInfo; statistics "imu" $($set)?);
            // Fast DDS loans only types of a fixed size.
            if loans {
                type Loaned = ReadOnlyLoanedMessage<$number>;
                form!($end, $create$arguments, $payload, Loaned, ; by_source "number" $($set)?);
                form!($end, $create$arguments, $payload, Loaned, MessageInfo; by_source "number" $($set)?);
            }
        };
    }
    forms_of!((), create_subscription(), (), Imu, Int32, set_callback);
    forms_of!(async {}, create_async_subscription(), (), Imu, Int32, set_async_callback);
    forms_of!((), create_worker_subscription(&worker), (), Imu, Int32, set_worker_callback);
    forms_of!((), create_worker_subscription(&worker), (&mut usize), Imu, Int32, set_worker_callback);
    forms_of!((), create_subscription(), (), RmwImu, RmwInt32);
    forms_of!(async {}, create_async_subscription(), (), RmwImu, RmwInt32);
    forms_of!((), create_worker_subscription(&worker), (), RmwImu, RmwInt32);
    forms_of!((), create_worker_subscription(&worker), (&mut usize), RmwImu, RmwInt32);
    let imu_type = || -> MessageTypeName { "sensor_msgs/msg/Imu".try_into().unwrap() };
    form!((), create_dynamic_subscription(imu_type()), (), DynamicMessage, MessageInfo; statistics "imu");
    form!(async {}, create_async_dynamic_subscription(imu_type()), (), DynamicMessage, MessageInfo; statistics "imu");
    form!(
        (), create_worker_dynamic_subscription(&worker, imu_type()), (&mut usize), DynamicMessage, MessageInfo;
        statistics "imu"
    );
    let loaned_forms = if loans { 16 } else { 0 };
    assert_eq!(forms.len(), 2 * 16 + 3 + loaned_forms, "two message layouts and dynamic types");

    let imu_topic = || "imu".reliable().keep_all();
    let imus = statistics.create_publisher::<Imu>(imu_topic().statistics(shown())).unwrap();
    let read = imu_topic().statistics(shown());
    let _read = statistics.create_subscription::<Imu, _>(read, |_: Imu| ()).unwrap();
    let layouts = statistics.create_publisher::<RmwImu>(imu_topic()).unwrap();
    let dynamics = statistics.create_dynamic_publisher(imu_type(), imu_topic()).unwrap();
    let numbers = statistics.create_publisher::<RmwInt32>("number".reliable().keep_all()).unwrap();
    let published = [
        imus.statistics().watch(),
        layouts.statistics().watch(),
        dynamics.statistics().watch(),
        numbers.statistics().watch(),
    ]
    .map(Windows::collect);
    assert_eq!((imus.topic_name(), dynamics.topic_name()), ("/imu".to_owned(), "/imu".to_owned()));
    assert_eq!(imus.statistics().source_name(), "/forms:/imu (36)");
    let mut ready = imus.notify_on_subscriber_ready();
    let mut reader = Reader::start(domain());
    let _spinning = Spinning::start(executor);
    wait_for("a subscriber", || matches!(ready.try_recv(), Ok(Some(()))));
    wait_for("subscriptions", || {
        let counts = [imus.get_subscription_count(), layouts.get_subscription_count()];
        let others = [dynamics.get_subscription_count(), numbers.get_subscription_count()];
        counts == [Ok(36), Ok(36)] && others == [Ok(36), Ok(loaned_forms)]
    });
    for _ in 0..2 {
        let imu = imu();
        imus.publish(&imu).unwrap();
        imus.publish(imu.clone()).unwrap();
        let layout = Imu::into_rmw_message(Cow::Owned(imu)).into_owned();
        layouts.publish(&layout).unwrap();
        layouts.publish(layout.clone()).unwrap();
        dynamics.publish(DynamicMessage::convert_from_rmw_message(layout).unwrap()).unwrap();
    }
    dynamics.publish(DynamicMessage::new("std_msgs/msg/String".try_into().unwrap()).unwrap()).unwrap_err();
    for data in 0..MESSAGES as i32 {
        match numbers.can_loan_messages() {
            true => {
                let mut number = numbers.borrow_loaned_message().unwrap();
                number.data = data;
                number.publish().unwrap();
            }
            false => numbers.publish(RmwInt32 { data }).unwrap(),
        }
    }
    for (name, received, windows, totals) in &forms {
        windows.wait_for(Metric::CallbackDuration, MESSAGES);
        assert_eq!(received.load(Ordering::Relaxed), MESSAGES, "{name}");
        let is_number = name.contains("Loaned");
        let (size, ages) = if is_number { (8, 0.0..60_000.0) } else { (316, 1e11..1e13) };
        assert_eq!(totals(), [MESSAGES, MESSAGES * size], "{name}");
        let metrics = [Metric::MessagePeriod, Metric::MessageAge, Metric::SourceToCallback];
        assert_eq!(windows.totals(metrics), [MESSAGES - 1, MESSAGES, MESSAGES], "{name}");
        assert!(ages.contains(&windows.least(Metric::MessageAge)), "{name}");
    }
    for (windows, (count, size)) in published.iter().zip([(4, 316), (4, 316), (2, 0), (MESSAGES, 8)]) {
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
    wait_for("silence", || numbers.statistics().latest().unwrap().count == 0);
    let silent = numbers.statistics().latest().unwrap();
    assert!(silent.get(Metric::PublishDuration).unwrap().average.is_nan(), "{silent:?}");
    // The clock offset is published with the host's name as the source, so it is not among these metrics.
    read_all(&mut reader, "/forms:/imu (37)", &Metric::OF_SUBSCRIPTIONS[..10]);
    read_all(&mut reader, "/forms:/imu (36)", SourceKind::Publisher.metrics());
    assert!(reader.metrics.iter().all(|window| window.source != "/forms:/imu"), "it is not published");
}
