// SPDX-License-Identifier: Apache-2.0

use std::any::Any;

use rclrs_topic_statistics::{StatsRequestedGoal, StatsServiceState};
use ros_env::test_msgs::srv::{BasicTypes, BasicTypes_Request as Request, BasicTypes_Response as Response};

use super::*;

fn request(value: i64) -> Request {
    Request { int64_value: value, ..Default::default() }
}

fn response(request: Request) -> Response {
    Response { int64_value: request.int64_value, ..Default::default() }
}

async fn later(request: Request) -> Response {
    response(request)
}

#[test]
fn every_form_of_service_and_call_is_measured() {
    let mut executor = single_threaded();
    let [server, caller] = ["server", "caller"].map(|name| executor.create_node(name).unwrap());
    let [statistics, caller_statistics] = [&server, &caller].map(statistics);
    let worker = server.create_worker(0_u64);
    let mut services: Vec<(&str, Windows, Box<dyn Any>)> = vec![];
    macro_rules! created {
        ($create:ident($($given:expr),*), $callback:ident, $respond:ident) => {
            statistics.$create($($given,)* $callback).unwrap()
        };
        // In this form, the method `$set` replaces another callback by the measured callback.
        ($create:ident($($given:expr),*), $callback:ident, $respond:ident, $set:ident) => {{
            let other = |_: Request| $respond(request(2));
            let service: Arc<StatsServiceState<BasicTypes, _>> =
                statistics.$create($($given,)* other).unwrap();
            service.$set($callback);
            service
        }};
    }
    macro_rules! form {
        (
            $name:literal, $create:ident($($worker:expr)?), $respond:ident, [$($payload:ty)?], [$($info:ty)?]
            $(, $set:ident)?
        ) => {
            let callback = |$(_: $payload,)? request: Request $(, _: $info)?| $respond(request);
            let service: Arc<StatsServiceState<BasicTypes, _>> =
                created!($create($($worker,)? $name), callback, $respond $(, $set)?);
            assert_eq!(service.service_name(), concat!("/", $name));
            assert_eq!(service.statistics().source_name(), concat!("/server:/", $name));
            services.push(($name, Windows::collect(service.statistics().watch()), Box::new(service)));
        };
    }
    form!("plain", create_service(), response, [], []);
    form!("plain_id", create_service(), response, [], [RequestId], set_callback);
    form!("plain_info", create_service(), response, [], [ServiceInfo]);
    form!("async", create_async_service(), later, [], []);
    form!("async_id", create_async_service(), later, [], [RequestId], set_async_callback);
    form!("async_info", create_async_service(), later, [], [ServiceInfo]);
    form!("worker", create_worker_service(&worker), response, [], []);
    form!("worker_id", create_worker_service(&worker), response, [], [RequestId], set_worker_callback);
    form!("worker_info", create_worker_service(&worker), response, [], [ServiceInfo]);
    form!("payload", create_worker_service(&worker), response, [&mut u64], []);
    form!("payload_id", create_worker_service(&worker), response, [&mut u64], [RequestId]);
    form!("payload_info", create_worker_service(&worker), response, [&mut u64], [ServiceInfo]);
    let client = |name: &str| caller_statistics.create_client::<BasicTypes>(name).unwrap();
    let clients: Vec<_> = services.iter().map(|(name, ..)| client(name)).collect();
    assert_eq!(clients[0].service_name(), "/plain");
    assert_eq!(clients[0].statistics().source_name(), "/caller:/plain");
    let client_windows: Vec<_> =
        clients.iter().map(|client| Windows::collect(client.statistics().watch())).collect();
    let mut reader = Reader::start(domain());
    let calling = clients.clone();
    run(&mut executor, async move {
        for client in calling {
            client.notify_on_service_ready().await.unwrap();
            let check = |response: Response| assert_eq!(response.int64_value, 1);
            let with_info = move |response, _: ServiceInfo| check(response);
            let with_id = move |response, _: RequestId| async move { check(response) };
            check(client.call(request(1)).unwrap().await.unwrap());
            let (response, _): (Response, RequestId) = client.call(&request(1)).unwrap().await.unwrap();
            check(response);
            let (response, info): (Response, ServiceInfo) = client.call(request(1)).unwrap().await.unwrap();
            check(response);
            assert!(info.source_timestamp.is_some());
            client.call_then(request(1), check).unwrap().await.unwrap();
            client.call_then(request(1), with_info).unwrap().await.unwrap();
            client.call_then_async(request(1), with_id).unwrap().await.unwrap();
        }
    });
    let delays = [Metric::SourceToReceive, Metric::ReceiveToCallback, Metric::SourceToCallback];
    for (calls, (name, service_windows, _)) in client_windows.iter().zip(&services) {
        let (duration, other) = match name.starts_with("async") {
            true => (Metric::ResponseDuration, Metric::CallbackDuration),
            false => (Metric::CallbackDuration, Metric::ResponseDuration),
        };
        service_windows.wait_for(duration, 6);
        calls.wait_for(Metric::RoundTrip, 6);
        let counts = [Metric::Requests, Metric::RequestPeriod, Metric::CallbackPanics, other];
        assert_eq!(service_windows.totals(counts), [6, 5, 0, 0], "{name}");
        let counts = [Metric::Calls, Metric::Responses, Metric::DroppedCalls];
        assert_eq!(calls.totals(counts), [6, 6, 0], "{name}");
        for windows in [service_windows, calls] {
            // In Kilted, rmw_fastrtps reports no received timestamp of requests, so two delays have no samples.
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
fn waiting_dropped_panicking_and_unmeasured_calls_are_right() {
    let mut executor = single_threaded();
    let [server, caller] = ["server", "caller"].map(|name| executor.create_node(name).unwrap());
    let [statistics, caller_statistics] = [&server, &caller].map(statistics);
    let new = StatisticsOptions::new;
    let off = || new().state(StatisticsState::Disable);
    let slow = statistics.create_service::<BasicTypes, _>("slow".statistics(off()), |request: Request| {
        std::thread::sleep(DELAY);
        response(request)
    });
    let slow = slow.unwrap();
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
    let [slow_windows, hold_windows, panics_windows] =
        [slow.statistics().watch(), hold.statistics().watch(), panics.statistics().watch()]
            .map(Windows::collect);
    let client = |name: &str, options| {
        caller_statistics.create_client::<BasicTypes>(name.statistics(options)).unwrap()
    };
    let (to_slow, to_hold, to_panics) =
        (client("slow", off()), client("hold", new()), client("panics", new()));
    let [from_slow, from_hold] =
        [to_slow.statistics().watch(), to_hold.statistics().watch()].map(Windows::collect);

    // Sources with disabled statistics must pass a request on. The measured request (8) waits while the executor's
    // thread sleeps.
    let (calling, serving) = (Arc::clone(&to_slow), Arc::clone(&slow));
    let [mut unpolled]: [Promise<Response>; 1] = run(&mut executor, async move {
        calling.notify_on_service_ready().await.unwrap();
        let unmeasured: Response = calling.call(request(7)).unwrap().await.unwrap();
        assert_eq!(unmeasured.int64_value, 7);
        assert!(calling.statistics().latest().is_none() && serving.statistics().latest().is_none());
        calling.statistics().set_state(StatisticsState::Enable);
        serving.statistics().set_state(StatisticsState::Enable);
        let waiting = calling.call(request(8)).unwrap();
        std::thread::sleep(DELAY);
        [waiting]
    });
    let _spinning = Spinning::start(executor);
    // The round trip must end when the response arrives, although the caller has not awaited the response yet.
    from_slow.wait_for(Metric::Responses, 1);
    assert_eq!(unpolled.try_recv().unwrap().unwrap().int64_value, 8);
    slow_windows.wait_for(Metric::CallbackDuration, 1);
    slow_windows.assert_delayed(Metric::CallbackDuration, 1);
    slow_windows.assert_delayed(Metric::SourceToCallback, 1);
    from_slow.assert_delayed(Metric::RoundTrip, 1);
    let (delay, round_trip) = (from_slow.most(Metric::SourceToCallback), from_slow.most(Metric::RoundTrip));
    assert!(delay < round_trip - 999.0, "the delay of the response alone: {delay} ms of {round_trip}");

    // The service must still handle a call whose promise is dropped. The test calls only when the service is ready.
    wait_for("service", || to_hold.service_is_ready().unwrap());
    let [waits, dropped, last] = [(); 3].map(|()| to_hold.call::<_, Response>(request(0)).unwrap());
    hold_windows.wait_for(Metric::Requests, 3);
    drop(dropped);
    from_hold.wait_for(Metric::DroppedCalls, 1);
    assert_eq!(from_hold.totals([Metric::Calls, Metric::Responses]), [3, 0]);
    assert_eq!(hold_windows.last(Metric::ActiveRequests), 3.0);
    respond.send_replace(true);
    hold_windows.wait_for(Metric::ResponseDuration, 3);
    from_hold.wait_for(Metric::Responses, 2);
    drop((waits, last));

    wait_for("service", || to_panics.service_is_ready().unwrap());
    let mut unanswered: Promise<Response> = to_panics.call(request(0)).unwrap();
    panics_windows.wait_for(Metric::CallbackPanics, 1);
    let totals = panics_windows.totals([Metric::Requests, Metric::CallbackDuration]);
    assert_eq!((totals, panics_windows.last(Metric::ActiveRequests)), ([1, 0], 0.0));
    drop(to_panics);
    // rclrs 0.8 sometimes does not notice that a promise was dropped. Creating this client wakes the wait set.
    assert_eq!(client("panics", new()).statistics().source_name(), "/caller:/panics", "its name is free");
    wait_for("the end of the promise", || unanswered.try_recv().is_err());

    // A condition must enable the metric that it needs, although the options do not contain this metric.
    let expected = Expectations::new().warn_unless("callback_duration.max<5ms".parse().unwrap());
    let few = "few".statistics(new().metrics([Metric::Requests]).expect(expected));
    let few = statistics.create_service::<BasicTypes, _>(few, response).unwrap();
    wait_for("window", || few.statistics().latest().is_some());
    let metrics: Vec<_> =
        few.statistics().latest().unwrap().metrics.iter().map(|(metric, _)| *metric).collect();
    assert_eq!(metrics, [Metric::CallbackDuration, Metric::Requests]);
}

#[test]
fn a_failed_creation_is_an_error_with_the_name() {
    use ros_env::test_msgs::action::Fibonacci;
    let (_executor, node) = node("driver", &[]);
    let (statistics, handle) =
        (statistics(&node), |goal: StatsRequestedGoal<Fibonacci>| async { goal.reject() });
    let wrong = StatisticsOptions::new().metrics([Metric::Frequency]);
    let options = || "right".statistics(wrong.clone());
    let no_type = || -> MessageTypeName { "no_such_msgs/msg/Imu".try_into().unwrap() };
    let no_age = "right".statistics(StatisticsOptions::new().age_source(AgeSource::HeaderStamp));
    for (error, variant) in [
        (statistics.create_service::<BasicTypes, _>("1st", response).err(), "Create { kind: Service"),
        (statistics.create_service::<BasicTypes, _>(options(), response).err(), "UnsupportedMetric"),
        (statistics.create_client::<BasicTypes>("1st").err(), "Create { kind: Client"),
        (statistics.create_action_server::<Fibonacci, _>("1st", handle).err(), "Create { kind: ActionServer"),
        (statistics.create_action_client::<Fibonacci>("1st").err(), "Create { kind: ActionClient"),
        (statistics.create_publisher::<Int32>("1st").err(), "Create { kind: Publisher"),
        (statistics.create_publisher::<Int32>(options()).err(), "UnsupportedMetric"),
        (statistics.create_publisher::<Int32>(no_age).err(), "UnsupportedOption"),
        (statistics.create_dynamic_publisher(no_type(), "1st").err(), "Create { kind: Publisher"),
        (
            statistics.create_dynamic_subscription(no_type(), "1st", |_, _| ()).err(),
            "Create { kind: Subscription",
        ),
    ] {
        let error = format!("{:?}", error.unwrap());
        let names_it = variant.starts_with("Unsupported") || error.contains("\"1st\"");
        assert!(error.starts_with(variant) && names_it, "{error}");
    }
}
