// SPDX-License-Identifier: Apache-2.0

//! Events, the service and the file report lost messages. A program with rclpy reads the events and calls the service.

use crate::support::*;

/// Returns a callback that counts its calls and waits while a gate is locked.
fn waiting<T>(called: &Arc<AtomicU64>, gate: &Arc<Mutex<()>>) -> impl Fn(T) + Send + Sync + 'static {
    let (called, gate) = (Arc::clone(called), Arc::clone(gate));
    move |_: T| {
        called.fetch_add(1, Ordering::Relaxed);
        drop(gate.lock());
    }
}

#[test]
fn events_report_new_losses_and_other_reports_the_totals() {
    if middleware::lacks_sequence_numbers("losses by events, the service and the file") {
        return;
    }
    const COUNT: u64 = 150;
    let domain = domain();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("totals.yaml");
    std::fs::write(&file, "an older file").unwrap();
    let options = NodeStatisticsOptions::new()
        .statistics(every(100).metrics([Metric::PublicationSeqGap, Metric::MessageSize]))
        .max_event_rate(100.0)
        .topic_statistics_service(true)
        .totals_file(&file);
    let (executor, node, statistics) = measured("lossy", options);
    let unmeasured = StatisticsOptions::new().metrics([Metric::MessagePeriod]);
    let unknown = subscribe::<Imu>(&statistics, "unknown".statistics(unmeasured));
    let event_publishers = || node.count_publishers("/events/messages_lost").unwrap();
    assert_eq!(event_publishers(), 0, "no losses are measured");
    let [called, blocked] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    let gates = [(); 2].map(|()| Arc::new(Mutex::new(())));
    let [release, unblock] = gates.each_ref().map(|gate| gate.lock().unwrap());
    let slow = waiting::<Imu>(&called, &gates[0]);
    let [worker, other] = [(); 2].map(|()| node.create_worker(()));
    let lossy = statistics.create_worker_subscription(&worker, "imu".keep_last(1), slow).unwrap();
    let number = "number".keep_last(1000);
    let number = statistics.create_worker_subscription(&other, number, |_: Int32| ()).unwrap();
    wait_for("publisher of events", || event_publishers() > 0);
    assert_eq!(event_publishers(), 1, "one for the node");
    let _blocking = node.create_subscription("block", waiting::<Int32>(&blocked, &gates[1])).unwrap();
    let blocking = node.create_publisher::<Int32>("block").unwrap();
    let spinning = Spinning::start(executor);
    let mut reader = Program::start("losses.py", &["--matched"], domain);
    assert_eq!(reader.read("no publisher of events"), "{\"matched\": 1}");

    // The node's executor is blocked by a callback from here on. Events, the service and the file must still work.
    wait_for_subscriptions(&blocking, 1);
    blocking.publish(Int32::default()).unwrap();
    wait_for("the callback that blocks", || blocked.load(Ordering::Relaxed) == 1);
    let sender = context(domain, &[]).create_basic_executor();
    let sender = sender.create_node("sender").unwrap();
    let create = || {
        let publisher = sender.create_publisher::<Imu>("imu".keep_last(1000)).unwrap();
        wait_for_subscriptions(&publisher, 1);
        publisher
    };
    let (imus, numbers) = (create(), sender.create_publisher::<Int32>("number".keep_last(1000)).unwrap());
    wait_for_subscriptions(&numbers, 1);
    // The callback of the first message waits, and the queue has room for one message. Further messages are lost.
    imus.publish(imu(Default::default())).unwrap();
    wait_for("the first message", || called.load(Ordering::Relaxed) == 1);
    for _ in 1..COUNT {
        imus.publish(imu(Default::default())).unwrap();
        numbers.publish(Int32::default()).unwrap();
    }
    wait_for("all numbers", || number.statistics().totals().unwrap().received == COUNT - 1);
    drop(release);
    wait_for("the last message", || {
        let totals = lossy.statistics().totals().unwrap();
        totals.received + totals.lost.unwrap() == COUNT
    });
    drop(imus);
    create().publish(imu(Default::default())).unwrap();
    wait_for("the message of a publisher that restarted", || {
        lossy.statistics().totals().unwrap().publishers == Some(2)
    });
    let totals = lossy.statistics().totals().unwrap();
    let lost = totals.lost.unwrap();
    assert_eq!((totals.received + lost, totals.out_of_order), (COUNT + 1, Some(0)), "not a loss");
    wait_for("as many calls", || called.load(Ordering::Relaxed) == totals.received);
    assert!(lost > COUNT / 2 && number.statistics().totals().unwrap().lost == Some(0), "{totals:?}");

    let mut sum = 0;
    while sum < lost {
        let line: Value = serde_json::from_str(&reader.read("event")).unwrap();
        assert_eq!((&line["node"], &line["event"][0][0]), (&"/lossy".into(), &"/imu".into()), "{line}");
        assert_eq!(line["event"].as_array().unwrap().len(), 1, "no other topic has losses: {line}");
        sum += line["event"][0][1].as_u64().unwrap();
    }
    assert_eq!(sum, lost, "no loss is published twice");

    let mut ask = || -> Value { serde_json::from_str(&reader.request("totals /lossy")).unwrap() };
    let answer = ask();
    let nanoseconds = |time: Option<Timestamp>| time.map(Timestamp::as_nanoseconds);
    let find = |source: &str| {
        answer["totals"].as_array().unwrap().iter().find(|total| total["source"] == source).unwrap()
    };
    let expected = json!({
        "topic": "/imu", "source": "/lossy:/imu", "received": totals.received, "lost": lost, "out_of_order": 0,
        "bytes": totals.bytes, "rate": totals.rate(), "first": nanoseconds(totals.first_message),
        "last": nanoseconds(totals.last_message), "metrics": {},
    });
    assert_eq!((&answer["node"], find("/lossy:/imu")), (&json!("/lossy"), &expected));
    assert!(totals.bytes.is_some_and(|bytes| bytes > 300 * totals.received), "{totals:?}");
    assert_eq!(find("/lossy:/number")["received"], COUNT - 1);
    let not_measured = find("/lossy:/unknown");
    let unknown_figures = ["bytes", "lost", "out_of_order", "rate"];
    assert!(unknown_figures.iter().all(|figure| not_measured[figure].is_null()), "{not_measured}");
    assert_eq!(blocked.load(Ordering::Relaxed), 1, "the executor was blocked all the time");

    // The service and the file also report subscriptions that have ended.
    drop((lossy, number));
    assert_eq!(ask()["totals"].as_array().unwrap().len(), 3);
    drop((unknown, statistics, unblock, spinning));
    let (received, bytes) = (totals.received, totals.bytes.unwrap());
    let expected = format!(
        "- topic_name: /imu\n  measurement_source_name: /lossy:/imu\n  messages_received: {received}\n  \
         messages_lost: {lost}\n  messages_out_of_order: 0\n  bytes_received: {bytes}\n"
    );
    let read = || std::fs::read_to_string(&file).unwrap();
    wait_for("the file of totals", || read() != "an older file");
    assert!(read().contains("version: 1\nnode_name: /lossy\n") && read().contains(&expected), "{}", read());
    assert_eq!(read().matches("messages_lost: null").count(), 1, "of /unknown: {}", read());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "no temporary file is left");
}
