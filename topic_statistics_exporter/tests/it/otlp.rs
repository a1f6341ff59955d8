// SPDX-License-Identifier: Apache-2.0

//! What a collector gets of an exporter that has its options by the environment.

use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    metrics::v1::{metric::Data, Metric},
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
    // The end sends the last report.
    exporter.process.signal("TERM");
    assert!(exporter.process.wait().success());
    let mut last = None;
    while last != Some(100) {
        let (head, body) = requests.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("{last:?} ages"));
        assert!(head.starts_with("post /v1/metrics ") && head.contains("api-key: open sesame"), "{head}");
        let request = ExportMetricsServiceRequest::decode(&*body).unwrap();
        let resource = &request.resource_metrics[0];
        let named = format!("{:?}", resource.resource.as_ref().unwrap().attributes.last());
        assert!(named.contains("service.name") && named.contains("spot"), "{named}");
        let ages = |metric: &Metric| match &metric.data {
            Some(Data::Summary(summary)) if metric.name == "topic_statistics.message_age" => {
                Some(summary.data_points.iter().map(|point| point.count).max()?)
            }
            _ => None,
        };
        last = resource.scope_metrics[0].metrics.iter().find_map(ages).or(last);
    }
}
