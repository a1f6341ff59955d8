// SPDX-License-Identifier: Apache-2.0

//! Compares the exporter's figures for real nodes with the messages that the nodes publish on /statistics.

use test_support::{domain, program, Process, Reader};

use crate::{
    common::{folder, Series},
    process::Exporter,
};

const ALL_METRICS: &str = "metrics:=[message_age, message_period, header_to_source_ms, source_to_receive_ms, \
                           receive_to_callback_ms, source_to_callback_ms, header_to_callback_ms, callback_duration_ms, \
                           message_size]";

#[test]
fn it_has_the_figures_that_a_reader_got() {
    let domain = domain();
    let exporter = Exporter::start(&[], domain);
    let mut reader = Reader::start_with_depth(domain, 2000);
    let _talker = Process::start(program("talker"), &["--ros-args", "-p", "rate:=50.0"], domain);
    let script = folder("testing/test_support/programs/rclcpp_statistics.py");
    let _cpp = Process::start("python3", &[script.to_str().unwrap()], domain);
    let arguments = ["--ros-args", "-p", ALL_METRICS, "-p", "topic_statistics.distributions:=true"];
    let listener = || Process::start(program("listener"), &arguments, domain);
    let first = listener();
    let imu = r#"{node="/listener",topic="/imu"}"#;
    let subscription = r#"{node="/listener",topic="/imu",kind="subscription"}"#;
    let cpp = r#"{node="cpp_listener",kind="subscription"}"#;
    let times = "message_age message_period header_to_source_ms source_to_receive_ms receive_to_callback_ms \
                 source_to_callback_ms header_to_callback_ms callback_duration_ms";
    // The four figures that the exporter exports for a metric all come from the same window. The test may receive this
    // window later than the exporter.
    for (source, metrics, unit, factor, labels) in [
        ("/listener:/imu", times, "seconds", 1e-3, subscription),
        ("/listener:/imu", "message_size", "bytes", 1.0, imu),
        ("cpp_listener", "message_age message_period", "seconds", 1e-3, cpp),
    ] {
        for metric in metrics.split(' ') {
            exporter.scrape_until(&format!("{metric} of {source}"), |series| {
                reader.read_received();
                let name = metric.trim_end_matches("_ms");
                let figures = ["mean", "min", "max", "stddev"]
                    .map(|figure| series.get(&format!("{name}_{figure}_{unit}{labels}")));
                reader.windows(source, metric).iter().any(|window| {
                    [window.average(), window.minimum(), window.maximum(), window.standard_deviation()]
                        .map(|figure| Some(figure * factor))
                        == figures
                })
            });
        }
    }
    exporter.scrape_until("quantiles of distributions", |series| {
        series.0.keys().any(|name| name.contains("node=\"/listener\"") && name.contains("quantile=\"0.5\""))
    });

    // Between two scrapes, a count grows by the samples of the windows that the exporter received between these
    // scrapes. The average identifies the window that the exporter received last before a scrape.
    let of = |series: &Series, name: &str| series.get(&format!("message_age_{name}{subscription}"));
    let mut at = |series: &Series| {
        reader.read_received();
        let windows = reader.windows("/listener:/imu", "message_age");
        let mean = of(series, "mean_seconds");
        let last = windows.iter().position(|window| Some(window.average() * 1e-3) == mean)?;
        let counts = windows[..=last].iter().map(test_support::Metric::count);
        Some((last, of(series, "seconds_count")? - counts.sum::<f64>()))
    };
    let (mut before, mut after) = (None, None);
    exporter.scrape_until("two windows", |series| {
        after = at(series);
        before = before.or(after);
        matches!((before, after), (Some((first, _)), Some((last, _))) if last >= first + 2)
    });
    assert_eq!(before.unwrap().1, after.unwrap().1);

    // After a node restarts, the same counter continues to grow.
    first.stop();
    let received = |series: &Series| series.get(&format!("messages_received_total{subscription}")).unwrap();
    let stopped = received(&Series::scrape(exporter.address));
    let _listener = listener();
    let series = exporter.scrape_until("growth after a restart", |series| received(series) > stopped + 50.0);
    assert_eq!(series.count("messages_received_total{node=\"/listener\",topic=\"/imu\""), 1);
}
