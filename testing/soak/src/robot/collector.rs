// SPDX-License-Identifier: Apache-2.0

//! A collector of OTLP: prints each request as a line of JSON, with the names that Prometheus gives its time series.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
};

use anyhow::{Context, Result};
use nix::time::ClockId;
use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::{any_value::Value as Text, KeyValue},
    metrics::v1::{metric::Data, number_data_point::Value, Metric, NumberDataPoint},
};
use prost::Message;
use serde_json::{json, Map};

use super::node::now;

/// Serves each connection on a thread of its own, until the end of standard input.
pub fn run(port: u16) -> Result<()> {
    std::thread::spawn(|| {
        let _end = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    for connection in listener.incoming() {
        let connection = connection?;
        // A request that is cut off is sent again.
        std::thread::spawn(move || serve(connection).map_err(|error| eprintln!("{error:#}")));
    }
    Ok(())
}

fn serve(mut connection: TcpStream) -> Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().context("Content-Length")?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let request = ExportMetricsServiceRequest::decode(&*body)?;
        let mut series = vec![];
        for metrics in request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics) {
            metrics.metrics.into_iter().for_each(|metric| add(metric, &mut series));
        }
        let at = [now(ClockId::CLOCK_MONOTONIC), now(ClockId::CLOCK_REALTIME)];
        println!("{}", json!({ "at": at, "series": series }));
        connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
    }
}

/// Adds the time series of a metric: name, labels and value.
fn add(metric: Metric, series: &mut Vec<serde_json::Value>) {
    let unit = match &*metric.unit {
        "s" => "_seconds",
        "By" => "_bytes",
        "Hz" => "_hertz",
        _ => "",
    };
    let name = format!("{}{unit}", metric.name.replace('.', "_"));
    let mut add = |part: &str, attributes: &[KeyValue], quantile: Option<f64>, value: f64| {
        let text =
            |attribute: &KeyValue| match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
                Some(Text::StringValue(text)) => Some((attribute.key.clone(), json!(text))),
                _ => None,
            };
        let mut labels: Map<_, _> = attributes.iter().filter_map(text).collect();
        labels.extend(quantile.map(|quantile| ("quantile".to_owned(), json!(quantile.to_string()))));
        series.push(json!([format!("{name}{part}"), labels, value]));
    };
    let number = |point: &NumberDataPoint| match point.value {
        Some(Value::AsDouble(value)) => value,
        Some(Value::AsInt(value)) => value as f64,
        None => f64::NAN,
    };
    match metric.data {
        Some(Data::Gauge(gauge)) => {
            gauge.data_points.iter().for_each(|point| add("", &point.attributes, None, number(point)));
        }
        Some(Data::Sum(sum)) => {
            sum.data_points.iter().for_each(|point| add("_total", &point.attributes, None, number(point)));
        }
        Some(Data::Summary(summary)) => {
            for point in &summary.data_points {
                add("_count", &point.attributes, None, point.count as f64);
                add("_sum", &point.attributes, None, point.sum);
                for quantile_value in &point.quantile_values {
                    add("", &point.attributes, Some(quantile_value.quantile), quantile_value.value);
                }
            }
        }
        Some(Data::ExponentialHistogram(histogram)) => {
            for point in &histogram.data_points {
                let buckets = [&point.positive, &point.negative].into_iter().flatten();
                let samples: u64 =
                    buckets.flat_map(|side| &side.bucket_counts).sum::<u64>() + point.zero_count;
                add("_count", &point.attributes, None, point.count as f64);
                add("_samples", &point.attributes, None, samples as f64);
                if let Some(sum) = point.sum {
                    add("_sum", &point.attributes, None, sum);
                }
            }
        }
        Some(Data::Histogram(_)) | None => {}
    }
}
