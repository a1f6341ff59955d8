// SPDX-License-Identifier: Apache-2.0

use std::any::Any;

use rclrs::*;
use rclrs_topic_statistics::{
    health::Expectations, IntoMeasuredOptions, Metric, SourceKind, StatisticsError, TopicStatisticsOptions,
    TopicStatisticsState,
};
use ros_env::test_msgs::srv::{BasicTypes, BasicTypes_Request as Request, BasicTypes_Response as Response};
use test_support::{domain, node, wait_for, Program, Reader, Spinning};

use super::{read_all, statistics, Windows, DELAY};

fn response(request: Request) -> Response {
    Response { int64_value: request.int64_value, ..Default::default() }
}

#[test]
fn every_form_of_a_service_is_measured() {
    let (executor, node) = node("server", &[]);
    let statistics = statistics(&node);
    let worker = node.create_worker(0_u64);
    let mut forms: Vec<(&str, Windows, Box<dyn Any>)> = vec![];
    macro_rules! form {
        (node $name:literal, $callback:expr) => {
            form!($name, statistics.create_service::<BasicTypes, _>($name, $callback))
        };
        (future $name:literal, $callback:expr) => {
            form!($name, statistics.create_async_service::<BasicTypes, _>($name, $callback))
        };
        (worker $name:literal, $callback:expr) => {
            form!($name, statistics.create_worker_service::<BasicTypes, _, _>(&worker, $name, $callback))
        };
        ($name:literal, $service:expr) => {
            let service = $service.unwrap();
            assert_eq!(service.service_name(), concat!("/", $name));
            assert_eq!(service.source_name(), concat!("/server:/", $name));
            forms.push(($name, Windows::of(service.watch()), Box::new(service)));
        };
    }
    form!(node "plain", |request: Request| response(request));
    form!(node "plain_id", |request: Request, _: RequestId| response(request));
    form!(node "plain_info", |request: Request, _: ServiceInfo| response(request));
    form!(future "async", |request: Request| async { response(request) });
    form!(future "async_id", |request: Request, _: RequestId| async { response(request) });
    form!(future "async_info", |request: Request, _: ServiceInfo| async { response(request) });
    form!(worker "worker", |request: Request| response(request));
    form!(worker "worker_id", |request: Request, _: RequestId| response(request));
    form!(worker "worker_info", |request: Request, _: ServiceInfo| response(request));
    form!(worker "payload", |_: &mut u64, request: Request| response(request));
    form!(worker "payload_id", |_: &mut u64, request: Request, _: RequestId| response(request));
    form!(worker "payload_info", |_: &mut u64, request: Request, _: ServiceInfo| response(request));
    let mut reader = Reader::start(domain());
    let _spinning = Spinning::start(executor);
    let mut client = Program::start("service_client.py", &[], domain());
    // Fewer than a service's queue has room for.
    let counts = || (0_u64..).map(|index| 2 + index % 5);
    for (count, (name, ..)) in counts().zip(&forms) {
        assert_eq!(client.request(&format!("{name} {count}")), count.to_string(), "{name}");
    }
    for (count, (name, windows, _)) in counts().zip(&forms) {
        let (duration, other) = match name.starts_with("async") {
            true => (Metric::ResponseDuration, Metric::CallbackDuration),
            false => (Metric::CallbackDuration, Metric::ResponseDuration),
        };
        windows.wait_for(duration, count);
        let totals =
            windows.totals([Metric::Requests, Metric::SourceToCallback, Metric::CallbackPanics, other]);
        assert_eq!(totals, [count, count, 0, 0], "{name}");
        // rmw_fastrtps of Kilted does not report when a request was received.
        let parts = windows.totals([Metric::SourceToReceive, Metric::ReceiveToCallback]);
        assert!(parts == [0; 2] || parts == [count; 2], "{name}: {parts:?}");
        let delays = (windows.least(Metric::SourceToCallback), windows.most(Metric::SourceToCallback));
        assert!(delays.0 >= 0.0 && delays.1 < 60_000.0, "{name}: {delays:?} ms");
        assert_eq!(windows.last(Metric::ActiveRequests), 0.0, "{name}");
    }
    let metrics = SourceKind::Service.metrics().iter().filter(|metric| **metric != Metric::ResponseDuration);
    read_all(&mut reader, "/server:/plain", &metrics.copied().collect::<Vec<_>>());
}

#[test]
fn requests_wait_hold_panic_and_pass_unmeasured() {
    let (mut executor, node) = node("server", &[]);
    let statistics = statistics(&node);
    let slow = statistics.create_service::<BasicTypes, _>("slow", |request: Request| {
        std::thread::sleep(DELAY);
        response(request)
    });
    let (respond, responds) = tokio::sync::watch::channel(false);
    let hold = statistics.create_async_service::<BasicTypes, _>("hold", move |request: Request| {
        let mut responds = responds.clone();
        async move {
            responds.wait_for(|responds| *responds).await.unwrap();
            response(request)
        }
    });
    let worker = node.create_worker(());
    let panics = |_: Request| -> Response { panic!("the panic of a callback") };
    let panics = statistics.create_worker_service::<BasicTypes, _, _>(&worker, "panics", panics).unwrap();
    let off = TopicStatisticsOptions::new().state(TopicStatisticsState::Disable);
    let off = statistics.create_service::<BasicTypes, _>("off".topic_statistics(off), response).unwrap();
    let (slow, hold) = (slow.unwrap(), hold.unwrap());
    let of = |service: &rclrs_topic_statistics::MeasuredService<_>| Windows::of(service.watch());
    let (of_slow, of_hold, of_off) = (of(&slow), of(&hold), of(&off));
    let of_panics = Windows::of(panics.watch());

    // A request that was sent before the executor spins waits for it.
    let caller = node.create_client::<BasicTypes>("slow").unwrap();
    wait_for("service", || caller.service_is_ready().unwrap());
    let answer: Promise<Response> = caller.call(Request::default()).unwrap();
    std::thread::sleep(DELAY);
    let spin =
        SpinOptions::default().until_promise_resolved(node.commands().run(async { drop(answer.await) }));
    assert!(executor.spin(spin).is_empty());
    of_slow.wait_for(Metric::Requests, 1);
    of_slow.assert_delayed(Metric::SourceToCallback, 1);
    of_slow.assert_delayed(Metric::CallbackDuration, 1);

    // The requests of a client that is killed end with their callbacks.
    let _spinning = Spinning::start(executor);
    let mut client = Program::start("service_client.py", &[], domain());
    client.send("hold 3");
    of_hold.wait_for(Metric::Requests, 3);
    client.signal("KILL");
    of_hold.wait_for_more(1);
    let active = || [Metric::ActiveRequests, Metric::MaxActiveRequests].map(|metric| of_hold.last(metric));
    assert_eq!((active(), of_hold.total(Metric::ResponseDuration)), ([3.0, 3.0], 0));
    respond.send_replace(true);
    of_hold.wait_for(Metric::ResponseDuration, 3);
    of_hold.wait_for_more(1);
    assert_eq!(active(), [0.0, 0.0]);

    let mut client = Program::start("service_client.py", &[], domain());
    assert_eq!(client.request("hold 2"), "2", "another client is served and counted as before");
    of_hold.wait_for(Metric::ResponseDuration, 5);
    assert_eq!((client.request("off 3"), of_off.len()), ("3".to_owned(), 0));
    off.set_state(TopicStatisticsState::Enable);
    assert_eq!(client.request("off 2"), "2");
    of_off.wait_for(Metric::Requests, 2);
    client.send("panics 1");
    of_panics.wait_for(Metric::CallbackPanics, 1);
    let totals = of_panics.totals([Metric::Requests, Metric::CallbackDuration]);
    assert_eq!((totals, of_panics.last(Metric::ActiveRequests)), ([1, 0], 0.0));

    // A condition measures what it needs beside the own metrics.
    let expected = Expectations::new().warn_unless("callback_duration.max<5ms".parse().unwrap());
    let few = TopicStatisticsOptions::new().metrics([Metric::Requests]).expect(expected);
    let few = statistics.create_service::<BasicTypes, _>("few".topic_statistics(few), response).unwrap();
    wait_for("window", || few.latest().is_some());
    let metrics: Vec<_> = few.latest().unwrap().metrics.iter().map(|(metric, _)| *metric).collect();
    assert_eq!(metrics, [Metric::CallbackDuration, Metric::Requests]);
    let wrong = "wrong".topic_statistics(TopicStatisticsOptions::new().metrics([Metric::MessageAge]));
    let error = statistics.create_service::<BasicTypes, _>(wrong, response).unwrap_err();
    assert!(matches!(error, StatisticsError::UnsupportedMetric { kind: SourceKind::Service, .. }), "{error}");
    let error = statistics.create_service::<BasicTypes, _>("1st service", response).unwrap_err();
    assert!(matches!(&error, StatisticsError::CreateService { name, .. } if name == "1st service"));
}
