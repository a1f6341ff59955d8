// SPDX-License-Identifier: Apache-2.0

use std::any::Any;

use rclrs_topic_statistics::health::{Expectations, Level};
use ros_env::test_msgs::srv::{BasicTypes, BasicTypes_Request as Request, BasicTypes_Response as Response};

use super::*;

fn request(value: i64) -> Request {
    Request { int64_value: value, ..Default::default() }
}

fn response(request: Request) -> Response {
    Response { int64_value: request.int64_value, ..Default::default() }
}

#[test]
fn every_form_of_a_service_and_of_a_call_is_measured() {
    let mut executor = single_threaded();
    let [server, caller] = ["server", "caller"].map(|name| executor.create_node(name).unwrap());
    let [statistics, of_caller] = [&server, &caller].map(statistics);
    let worker = server.create_worker(0_u64);
    let mut services: Vec<(&str, Windows, Box<dyn Any>)> = vec![];
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
            services.push(($name, Windows::of(service.watch()), Box::new(service)));
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
    let client = |name: &str| of_caller.create_client::<BasicTypes>(name).unwrap();
    let clients: Vec<_> = services.iter().map(|(name, ..)| client(name)).collect();
    assert_eq!(clients[0].service_name(), "/plain");
    assert_eq!(clients[0].source_name(), "/caller:/plain");
    let of_clients: Vec<_> = clients.iter().map(|client| Windows::of(client.watch())).collect();
    let mut reader = Reader::start(domain());
    let calling = clients.clone();
    run(&mut executor, async move {
        for client in calling {
            client.notify_on_service_ready().await.unwrap();
            let plain: Response = client.call(request(1)).unwrap().await.unwrap();
            let with_id: (Response, RequestId) = client.call(&request(2)).unwrap().await.unwrap();
            let with_info: (Response, ServiceInfo) = client.call(request(3)).unwrap().await.unwrap();
            assert!(with_info.1.source_timestamp.is_some());
            let values = [plain, with_id.0, with_info.0].map(|response| response.int64_value);
            assert_eq!(values, [1, 2, 3]);
            let check = |expected: i64| move |response: Response| assert_eq!(response.int64_value, expected);
            let (plain, with_info, with_id) = (check(4), check(5), check(6));
            let with_info = move |response: Response, _: ServiceInfo| with_info(response);
            let with_id = move |response: Response, _: RequestId| async move { with_id(response) };
            client.call_then(request(4), plain).unwrap().await.unwrap();
            client.call_then(request(5), with_info).unwrap().await.unwrap();
            client.call_then_async(request(6), with_id).unwrap().await.unwrap();
        }
    });
    let delays = [Metric::SourceToReceive, Metric::ReceiveToCallback, Metric::SourceToCallback];
    for (of_client, (name, of_service, _)) in of_clients.iter().zip(&services) {
        let (duration, other) = match name.starts_with("async") {
            true => (Metric::ResponseDuration, Metric::CallbackDuration),
            false => (Metric::CallbackDuration, Metric::ResponseDuration),
        };
        of_service.wait_for(duration, 6);
        let counts = [Metric::Requests, Metric::RequestPeriod, Metric::CallbackPanics, other];
        assert_eq!(of_service.totals(counts), [6, 5, 0, 0], "{name}");
        assert_eq!(of_service.last(Metric::ActiveRequests), 0.0, "{name}");
        of_client.wait_for(Metric::RoundTrip, 6);
        let counts = [Metric::Calls, Metric::Responses, Metric::DroppedCalls];
        assert_eq!(of_client.totals(counts), [6, 6, 0], "{name}");
        for windows in [of_service, of_client] {
            // rmw_fastrtps of Kilted does not report when a request was received.
            let counts = windows.totals(delays);
            assert!(counts == [6; 3] || counts == [0, 0, 6], "{name}: {counts:?}");
            assert!(windows.least(Metric::SourceToCallback) >= 0.0, "{name}");
        }
    }
    // An async service has a response duration instead of a callback duration.
    read_all(&mut reader, "/server:/plain", &SourceKind::Service.metrics()[..6]);
    read_all(&mut reader, "/server:/async", &SourceKind::Service.metrics()[6..]);
    read_all(&mut reader, "/caller:/plain", SourceKind::Client.metrics());
}

#[test]
fn requests_and_calls_wait_hold_panic_and_pass_unmeasured() {
    let mut executor = single_threaded();
    let [server, caller] = ["server", "caller"].map(|name| executor.create_node(name).unwrap());
    let [statistics, of_caller] = [&server, &caller].map(statistics);
    let new = TopicStatisticsOptions::new;
    let off = || new().state(TopicStatisticsState::Disable);
    let slow = |request: Request| {
        std::thread::sleep(DELAY);
        response(request)
    };
    let slow = statistics.create_service::<BasicTypes, _>("slow".topic_statistics(off()), slow).unwrap();
    let (respond, responds) = tokio::sync::watch::channel(false);
    let hold = move |request: Request| {
        let mut responds = responds.clone();
        async move {
            responds.wait_for(|responds| *responds).await.unwrap();
            response(request)
        }
    };
    let hold = statistics.create_async_service::<BasicTypes, _>("hold", hold).unwrap();
    let panics = |_: Request| -> Response { panic!("the panic of a callback") };
    let worker = server.create_worker(());
    let panics = statistics.create_worker_service::<BasicTypes, _, _>(&worker, "panics", panics).unwrap();
    let [of_slow, of_hold, of_panics] = [slow.watch(), hold.watch(), panics.watch()].map(Windows::of);
    let client =
        |name: &str, options| of_caller.create_client::<BasicTypes>(name.topic_statistics(options)).unwrap();
    let expected = Expectations::new().error_unless("oldest_call<300ms".parse().unwrap());
    let (to_slow, to_hold) = (client("slow", off()), client("hold", new().expect(expected)));
    let to_panics = client("panics", new());
    let [from_slow, from_hold] = [to_slow.watch(), to_hold.watch()].map(Windows::of);

    // Disabled statistics pass a request on. A measured one waits for the executor.
    let (calling, serving) = (Arc::clone(&to_slow), Arc::clone(&slow));
    let mut unpolled: Promise<Response> = run(&mut executor, async move {
        calling.notify_on_service_ready().await.unwrap();
        let unmeasured: Response = calling.call(request(7)).unwrap().await.unwrap();
        assert_eq!(unmeasured.int64_value, 7);
        assert!(calling.latest().is_none() && serving.latest().is_none());
        calling.set_state(TopicStatisticsState::Enable);
        serving.set_state(TopicStatisticsState::Enable);
        let waiting = calling.call(request(8)).unwrap();
        std::thread::sleep(DELAY);
        waiting
    });
    let _spinning = Spinning::start(executor);
    // A round trip ends with the response, and not when it is awaited.
    from_slow.wait_for(Metric::Responses, 1);
    assert_eq!(unpolled.try_recv().unwrap().unwrap().int64_value, 8);
    of_slow.wait_for(Metric::CallbackDuration, 1);
    of_slow.assert_delayed(Metric::CallbackDuration, 1);
    of_slow.assert_delayed(Metric::SourceToCallback, 1);
    from_slow.assert_delayed(Metric::RoundTrip, 1);
    let (delay, round_trip) = (from_slow.most(Metric::SourceToCallback), from_slow.most(Metric::RoundTrip));
    assert!(delay < round_trip - 999.0, "the delay of the response alone: {delay} ms of {round_trip}");

    // A call that is dropped goes on in the service. No response arrives before these calls have returned.
    wait_for("service", || to_hold.service_is_ready().unwrap());
    let [waits, dropped, last] = [(); 3].map(|()| to_hold.call::<_, Response>(request(0)).unwrap());
    of_hold.wait_for(Metric::Requests, 3);
    wait_for("an error", || to_hold.health().borrow().level == Level::Error);
    drop(dropped);
    from_hold.wait_for(Metric::DroppedCalls, 1);
    let active = || [Metric::ActiveRequests, Metric::MaxActiveRequests].map(|metric| of_hold.last(metric));
    assert_eq!((active(), from_hold.totals([Metric::Calls, Metric::Responses])), ([3.0; 2], [3, 0]));
    assert!(from_hold.last(Metric::OldestCall) >= 300.0);
    respond.send_replace(true);
    of_hold.wait_for(Metric::ResponseDuration, 3);
    from_hold.wait_for(Metric::Responses, 2);
    of_hold.wait_for_more(1);
    assert_eq!((active(), from_hold.last(Metric::OldestCall)), ([0.0; 2], 0.0));
    wait_for("the end of the error", || to_hold.health().borrow().level == Level::Ok);
    drop((waits, last));

    wait_for("service", || to_panics.service_is_ready().unwrap());
    let mut unanswered: Promise<Response> = to_panics.call(request(0)).unwrap();
    of_panics.wait_for(Metric::CallbackPanics, 1);
    let totals = of_panics.totals([Metric::Requests, Metric::CallbackDuration]);
    assert_eq!((totals, of_panics.last(Metric::ActiveRequests)), ([1, 0], 0.0));
    drop(to_panics);
    // rclrs 0.8 sometimes misses the wake-up of a drop. This wakes the wait set.
    assert_eq!(client("panics", new()).source_name(), "/caller:/panics", "its name is free");
    wait_for("the end of the promise", || unanswered.try_recv().is_err());

    // A condition measures what it needs beside the own metrics.
    let expected = Expectations::new().warn_unless("callback_duration.max<5ms".parse().unwrap());
    let few = "few".topic_statistics(new().metrics([Metric::Requests]).expect(expected));
    let few = statistics.create_service::<BasicTypes, _>(few, response).unwrap();
    wait_for("window", || few.latest().is_some());
    let metrics: Vec<_> = few.latest().unwrap().metrics.iter().map(|(metric, _)| *metric).collect();
    assert_eq!(metrics, [Metric::CallbackDuration, Metric::Requests]);
    let wrong = "wrong".topic_statistics(new().metrics([Metric::MessageAge]));
    let error = statistics.create_service::<BasicTypes, _>(wrong, response).unwrap_err();
    assert!(matches!(error, StatisticsError::UnsupportedMetric { kind: SourceKind::Service, .. }), "{error}");
    let error = statistics.create_service::<BasicTypes, _>("1st service", response).unwrap_err();
    assert!(matches!(&error, StatisticsError::CreateService { name, .. } if name == "1st service"));
    let error = of_caller.create_client::<BasicTypes>("1st service").unwrap_err();
    assert!(matches!(&error, StatisticsError::CreateClient { name, .. } if name == "1st service"), "{error}");
    let wrong = "hold".topic_statistics(new().metrics([Metric::Requests]));
    let error = of_caller.create_client::<BasicTypes>(wrong).unwrap_err();
    assert!(error.to_string().contains("A client has no metric \"requests\": it has "), "{error}");
}
