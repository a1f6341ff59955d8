// SPDX-License-Identifier: Apache-2.0

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    time::Duration,
};

use rclrs::*;
use rclrs_topic_statistics::{
    IntoMeasuredOptions, Metric, SourceKind, StatisticsError, TopicStatisticsOptions, TopicStatisticsState,
};
use ros_env::test_msgs::srv::{BasicTypes, BasicTypes_Request as Request};
use test_support::{domain, in_a_process_of_its_own, node, of, wait_for, Program, Reader, Spinning};

use super::{response, statistics, Windows};

const CALLBACK: Duration = Duration::from_millis(100);

#[test]
fn every_form_of_a_callback_is_measured() {
    let (executor, node) = node("server", &[]);
    let statistics = statistics(&node);
    let worker = node.create_worker(0_u64);
    let mut watched = vec![];
    macro_rules! measured {
        ($name:literal, $service:expr) => {{
            let service = $service.unwrap();
            assert_eq!(
                (service.service_name(), service.source_name()),
                (format!("/{}", $name), concat!("/server:/", $name))
            );
            watched.push(($name, Windows::of(service.watch())));
            service
        }};
    }
    type S = BasicTypes;
    let _plain = (
        measured!("plain", statistics.create_service::<S, _>("plain", |request: Request| response(request))),
        measured!(
            "plain_id",
            statistics.create_service::<S, _>("plain_id", |request: Request, _: RequestId| response(request))
        ),
        measured!(
            "plain_info",
            statistics
                .create_service::<S, _>("plain_info", |request: Request, _: ServiceInfo| response(request))
        ),
    );
    let _async = (
        measured!(
            "async",
            statistics.create_async_service::<S, _>("async", |request: Request| async { response(request) })
        ),
        measured!(
            "async_id",
            statistics.create_async_service::<S, _>("async_id", |request: Request, _: RequestId| async {
                response(request)
            })
        ),
        measured!(
            "async_info",
            statistics.create_async_service::<S, _>("async_info", |request: Request, _: ServiceInfo| async {
                response(request)
            })
        ),
    );
    let _on_worker = (
        measured!(
            "worker",
            statistics
                .create_worker_service::<S, _, _>(&worker, "worker", |request: Request| response(request))
        ),
        measured!(
            "worker_id",
            statistics.create_worker_service::<S, _, _>(
                &worker,
                "worker_id",
                |request: Request, _: RequestId| response(request)
            )
        ),
        measured!(
            "worker_info",
            statistics.create_worker_service::<S, _, _>(
                &worker,
                "worker_info",
                |request: Request, _: ServiceInfo| response(request)
            )
        ),
        measured!(
            "payload",
            statistics.create_worker_service::<S, _, _>(
                &worker,
                "payload",
                |calls: &mut u64, request: Request| {
                    *calls += 1;
                    response(request)
                }
            )
        ),
        measured!(
            "payload_id",
            statistics.create_worker_service::<S, _, _>(
                &worker,
                "payload_id",
                |calls: &mut u64, request: Request, _: RequestId| {
                    *calls += 1;
                    response(request)
                }
            )
        ),
        measured!(
            "payload_info",
            statistics.create_worker_service::<S, _, _>(
                &worker,
                "payload_info",
                |calls: &mut u64, request: Request, _: ServiceInfo| {
                    *calls += 1;
                    response(request)
                }
            )
        ),
    );
    let mut reader = Reader::start(domain());
    let _spinning = Spinning::start(executor);
    let mut client = Program::start("service_client.py", &[], domain());
    // Fewer than a service's queue has room for.
    let counts = || (0_u64..).map(|index| 2 + index % 5);
    for (count, (name, _)) in counts().zip(&watched) {
        assert_eq!(client.request(&format!("{name} {count}")), count.to_string(), "{name}");
    }
    for (count, (name, windows)) in counts().zip(&watched) {
        windows.wait_for(Metric::Requests, count as f64);
        windows.wait_for_more(1); // a callback may end in the next window
        assert_eq!(windows.sum(Metric::Requests), count as f64, "{name}");
        let (duration, other) = match name.starts_with("async") {
            true => (Metric::ResponseDuration, Metric::CallbackDuration),
            false => (Metric::CallbackDuration, Metric::ResponseDuration),
        };
        assert_eq!((windows.count(duration), windows.count(other)), (count, 0), "{name}");
        assert_eq!(windows.count(Metric::SourceToCallback), count, "{name}");
        // rmw_fastrtps of Kilted does not report when a request was received.
        let lacks_reception = windows.count(Metric::SourceToReceive) == 0;
        let parts = [Metric::SourceToReceive, Metric::ReceiveToCallback].map(|metric| windows.count(metric));
        assert_eq!(parts, [if lacks_reception { 0 } else { count }; 2], "{name}");
        let delay = windows.sum(Metric::SourceToReceive) + windows.sum(Metric::ReceiveToCallback);
        let whole = windows.sum(Metric::SourceToCallback);
        assert!(lacks_reception || (delay - whole).abs() < 1e-3, "{name}: {delay} {whole}");
        assert!((0.0..60_000.0).contains(&whole), "{name}: {whole}");
        let under_way =
            windows.0.lock().unwrap().last().unwrap().get(Metric::ActiveRequests).unwrap().average;
        assert_eq!((under_way, windows.sum(Metric::CallbackPanics)), (0.0, 0.0), "{name}");
    }
    reader.read_until("the metrics of a service", |read| {
        SourceKind::Service.metrics().iter().filter(|metric| **metric != Metric::ResponseDuration).all(
            |metric| of(read, "/server:/plain", metric.name()).any(|window| window.unit == metric.unit()),
        )
    });
}

#[test]
fn a_slow_callback_delays_the_requests_that_wait_for_it() {
    let (executor, node) = node("server", &[]);
    let statistics = statistics(&node);
    let slow = |request: Request| {
        std::thread::sleep(CALLBACK);
        response(request)
    };
    let service = statistics.create_service::<BasicTypes, _>("slow", slow).unwrap();
    let windows = Windows::of(service.watch());
    let _spinning = Spinning::start(executor);
    let mut client = Program::start("service_client.py", &[], domain());
    // The client may be held up between two of its requests: then again.
    let waited = || windows.maximum(Metric::SourceToCallback);
    let were_under_way = || windows.maximum(Metric::MaxActiveRequests);
    for attempt in 1..=5 {
        assert_eq!(client.request("slow 4"), "4");
        windows.wait_for(Metric::Requests, f64::from(4 * attempt));
        windows.wait_for_more(1);
        if waited() >= 250.0 && were_under_way() == 4.0 {
            break;
        }
    }
    let (least, most) =
        (windows.minimum(Metric::CallbackDuration), windows.maximum(Metric::CallbackDuration));
    assert!(least >= 100.0 && most < 1000.0, "{least} to {most} ms");
    assert!(waited() >= 250.0, "the last one waits for three others: {} ms", waited());
    assert!(windows.minimum(Metric::RequestPeriod) >= 100.0, "one starts when the other one ends");
    assert_eq!(were_under_way(), 4.0, "rclrs takes all of them at once");
    assert_eq!(windows.all(Metric::ActiveRequests).last().unwrap().average, 0.0);
}

#[test]
fn a_thousand_requests_at_once_are_all_under_way() {
    const REQUESTS: u64 = 1000;
    let (executor, node) = node("server", &[]);
    let statistics = statistics(&node);
    let started = Arc::new(AtomicU64::new(0));
    let (respond, _) = tokio::sync::watch::channel(false);
    let callback = {
        let (started, responds) = (Arc::clone(&started), respond.subscribe());
        move |request: Request| {
            let (started, mut responds) = (Arc::clone(&started), responds.clone());
            async move {
                started.fetch_add(1, Ordering::Relaxed);
                responds.wait_for(|responds| *responds).await.unwrap();
                response(request)
            }
        }
    };
    let service = statistics.create_async_service::<BasicTypes, _>("many".keep_last(2000), callback).unwrap();
    let windows = Windows::of(service.watch());
    let _spinning = Spinning::start(executor);
    let mut client = Program::start("service_client.py", &[], domain());
    client.send(&format!("many {REQUESTS}"));
    wait_for("all requests", || started.load(Ordering::Relaxed) == REQUESTS);
    windows.wait_for_more(2);
    assert_eq!(windows.all(Metric::ActiveRequests).last().unwrap().average, REQUESTS as f64);
    assert_eq!(windows.count(Metric::ResponseDuration), 0, "none has a response");
    respond.send_replace(true);
    assert_eq!(client.read("responses"), REQUESTS.to_string());
    wait_for("the end of all requests", || windows.count(Metric::ResponseDuration) == REQUESTS);
    windows.wait_for_more(2);
    assert_eq!(windows.sum(Metric::Requests), REQUESTS as f64);
    assert_eq!(windows.maximum(Metric::MaxActiveRequests), REQUESTS as f64);
    assert_eq!(windows.all(Metric::ActiveRequests).last().unwrap().average, 0.0);
    assert_eq!(windows.all(Metric::MaxActiveRequests).last().unwrap().average, 0.0);
}

#[test]
fn the_requests_of_a_client_that_was_killed_end_with_their_callbacks() {
    let (executor, node) = node("server", &[]);
    let statistics = statistics(&node);
    let (respond, responds) = tokio::sync::watch::channel(false);
    let callback = move |request: Request| {
        let mut responds = responds.clone();
        async move {
            responds.wait_for(|responds| *responds).await.unwrap();
            response(request)
        }
    };
    let service = statistics.create_async_service::<BasicTypes, _>("left", callback).unwrap();
    let windows = Windows::of(service.watch());
    let _spinning = Spinning::start(executor);
    let mut client = Program::start("service_client.py", &[], domain());
    client.send("left 3");
    windows.wait_for(Metric::Requests, 3.0);
    client.signal("KILL");
    drop(client);
    windows.wait_for_more(2);
    assert_eq!(windows.all(Metric::ActiveRequests).last().unwrap().average, 3.0, "their callbacks go on");
    respond.send_replace(true);
    wait_for("the end of all requests", || windows.count(Metric::ResponseDuration) == 3);
    windows.wait_for_more(1);
    assert_eq!(windows.all(Metric::ActiveRequests).last().unwrap().average, 0.0);
    // Another client is served and counted as before.
    let mut client = Program::start("service_client.py", &[], domain());
    assert_eq!(client.request("left 2"), "2");
    windows.wait_for(Metric::Requests, 5.0);
    windows.wait_for_more(1);
    assert_eq!((windows.sum(Metric::Requests), windows.count(Metric::ResponseDuration)), (5.0, 5));
}

#[test]
fn a_callback_that_panics_is_counted() {
    in_a_process_of_its_own(|| {
        let (executor, node) = node("server", &[]);
        let statistics = statistics(&node);
        let worker = node.create_worker(());
        let panics = |_: Request| -> ros_env::test_msgs::srv::BasicTypes_Response {
            panic!("the panic of a callback")
        };
        let service =
            statistics.create_worker_service::<BasicTypes, _, _>(&worker, "panics", panics).unwrap();
        let windows = Windows::of(service.watch());
        let _spinning = Spinning::start(executor);
        let mut client = Program::start("service_client.py", &[], domain());
        client.send("panics 1");
        windows.wait_for(Metric::CallbackPanics, 1.0);
        windows.wait_for_more(2);
        assert_eq!((windows.sum(Metric::CallbackPanics), windows.sum(Metric::Requests)), (1.0, 1.0));
        assert_eq!(windows.count(Metric::CallbackDuration), 0);
        assert_eq!(windows.all(Metric::ActiveRequests).last().unwrap().average, 0.0);
    });
}

#[test]
fn a_service_without_clients_has_windows_without_requests_and_is_no_fault() {
    let (executor, node) = node("server", &[]);
    let statistics = statistics(&node);
    let expected = "source_to_callback.p99<50ms active_requests<=2".parse().unwrap();
    let options = TopicStatisticsOptions::new()
        .expect(rclrs_topic_statistics::health::Expectations::new().error_unless(expected));
    let idle = |request: Request| response(request);
    let service = statistics.create_service::<BasicTypes, _>("idle".topic_statistics(options), idle).unwrap();
    let windows = Windows::of(service.watch());
    let _spinning = Spinning::start(executor);
    windows.wait_for_more(4);
    for metric in [Metric::Requests, Metric::ActiveRequests, Metric::MaxActiveRequests] {
        assert!(
            windows.all(metric).iter().all(|summary| summary.average == 0.0 && summary.sample_count == 1),
            "{metric}"
        );
    }
    assert_eq!(windows.count(Metric::SourceToCallback) + windows.count(Metric::RequestPeriod), 0);
    assert_eq!(service.health().borrow().level, rclrs_topic_statistics::health::Level::Ok);
}

#[test]
fn a_disabled_service_responds_and_is_not_measured() {
    let (executor, node) = node("server", &[]);
    let statistics = statistics(&node);
    let off = TopicStatisticsOptions::new().state(TopicStatisticsState::Disable);
    let callback = |request: Request| response(request);
    let service = statistics.create_service::<BasicTypes, _>("off".topic_statistics(off), callback).unwrap();
    let _spinning = Spinning::start(executor);
    let mut client = Program::start("service_client.py", &[], domain());
    assert_eq!(client.request("off 3"), "3");
    assert!(service.latest().is_none());
    let windows = Windows::of(service.watch());
    service.set_state(TopicStatisticsState::Enable);
    assert_eq!(client.request("off 2"), "2");
    windows.wait_for(Metric::Requests, 2.0);
    assert_eq!(windows.sum(Metric::Requests), 2.0);
}

#[test]
fn a_service_measures_the_metrics_of_its_own_options_and_of_its_conditions() {
    let (_executor, node) = node("server", &[]);
    let statistics = statistics(&node);
    let callback = |request: Request| response(request);
    let expected = "callback_duration.max<5ms".parse().unwrap();
    let options = TopicStatisticsOptions::new()
        .metrics([Metric::Requests])
        .expect(rclrs_topic_statistics::health::Expectations::new().warn_unless(expected));
    let service =
        statistics.create_service::<BasicTypes, _>("few".topic_statistics(options), callback).unwrap();
    wait_for("window", || service.latest().is_some());
    let metrics: Vec<_> = service.latest().unwrap().metrics.iter().map(|(metric, _)| *metric).collect();
    assert_eq!(metrics, [Metric::CallbackDuration, Metric::Requests]);

    let wrong = TopicStatisticsOptions::new().metrics([Metric::MessageAge]);
    let error =
        statistics.create_service::<BasicTypes, _>("wrong".topic_statistics(wrong), callback).unwrap_err();
    assert!(matches!(
        error,
        StatisticsError::UnsupportedMetric { kind: SourceKind::Service, metric: Metric::MessageAge }
    ));
    let error = statistics.create_service::<BasicTypes, _>("1st service", callback).unwrap_err();
    assert!(
        matches!(&error, StatisticsError::CreateService { name, .. } if name == "1st service"),
        "{error}"
    );
}
