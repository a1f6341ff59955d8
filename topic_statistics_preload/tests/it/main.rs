// SPDX-License-Identifier: Apache-2.0

//! Tests of the preloaded library in real processes with real topics. Other processes read its windows.

mod composition;
mod hops;
mod host;
mod messages;
mod services;
#[path = "../support/mod.rs"]
mod support;

use std::{process::Command, time::SystemTime};

use support::{output, preloaded};
use test_support::{domain, windows_of, Metric, Program, Reader};

fn start(name: &str, arguments: &[&str], options: &[(&str, &str)]) -> Program {
    spawn(Program::command(name, arguments, domain()), options)
}

fn spawn(mut command: Command, options: &[(&str, &str)]) -> Program {
    preloaded(&mut command, options);
    command.spawn().unwrap().into()
}

/// Reads until each source has published a window of its metric that began after this call. Returns the time of the
/// call, in nanoseconds since the epoch.
fn settle(reader: &mut Reader, sources: &[(impl AsRef<str>, &str)]) -> i64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as i64;
    let is_later = |window: &Metric| window.start > now;
    reader.read_until("later windows", |metrics| {
        sources.iter().all(|(source, metric)| windows_of(metrics, source.as_ref(), metric).any(is_later))
    });
    now
}

fn count(metrics: &[Metric], source: &str, metric: &str) -> f64 {
    windows_of(metrics, source, metric).map(Metric::count).sum()
}

/// Returns the sum of a metric that has one number for each window.
fn total(metrics: &[Metric], source: &str, metric: &str) -> f64 {
    windows_of(metrics, source, metric).map(Metric::average).sum()
}

fn extremes(metrics: &[Metric], source: &str, metric: &str) -> (f64, f64) {
    let (least, greatest) = (windows_of(metrics, source, metric), windows_of(metrics, source, metric));
    (
        least.map(Metric::minimum).fold(f64::NAN, f64::min),
        greatest.map(Metric::maximum).fold(f64::NAN, f64::max),
    )
}
