// SPDX-License-Identifier: Apache-2.0

//! Checks the requests that a collector receives from an exporter whose options are set by environment variables.

use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest, metrics::v1::metric::Data,
};
use prost::Message;
use test_support::{command, domain, program, LIMIT};

use crate::{
    common::{accept_all, FIGURES},
    process::Exporter,
    robot::Robot,
};

#[test]
fn the_environment_names_a_collector_that_gets_all_windows() {
    let (address, requests) = accept_all();
    let mut command = command(program("exporter"), &["--listen", "127.0.0.1:0"], domain());
    command.envs([
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*format!("http://{address}")),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=open%20sesame"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "none"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "100"),
        ("OTEL_SERVICE_NAME", "spot"),
    ]);
    let mut exporter = Exporter::of(&mut command);
    exporter.wait_for_line("OTEL_EXPORTER_OTLP_TIMEOUT is \"10s\", and is ignored");
    let robot = Robot::start();
    for stop in [100, 101] {
        robot.publish("/listener:/imu", "message_age", stop, FIGURES);
    }
    robot.settle(&exporter);
    // When the exporter ends, it sends a last report.
    exporter.process.signal("TERM");
    assert!(exporter.process.wait().success());
    let mut ages = None;
    while ages != Some(100) {
        let (head, body) = requests.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("{ages:?} ages"));
        assert!(head.starts_with("post /v1/metrics ") && head.contains("api-key: open sesame"), "{head}");
        let resource = &ExportMetricsServiceRequest::decode(&*body).unwrap().resource_metrics[0];
        let name = format!("{:?}", resource.resource.as_ref().unwrap().attributes.last());
        assert!(name.contains("service.name") && name.contains("spot"), "{name}");
        let metrics = &resource.scope_metrics[0].metrics;
        let metric = metrics.iter().find(|metric| metric.name == "topic_statistics.message_age");
        if let Some(Data::Summary(summary)) = metric.and_then(|metric| metric.data.as_ref()) {
            ages = summary.data_points.iter().map(|point| point.count).max();
        }
    }
}
