// SPDX-License-Identifier: Apache-2.0

//! The statistics of a topic over a whole recording (a bag), and the table of these statistics.

use std::{
    io::{self, Write},
    time::Instant,
};

use crate::{
    format::{self, count, count_if_known, figure},
    recording::RecordedMetric,
    row::Row,
};

/// The statistics of all messages of a topic in a recording. The row of the topic has the totals and the publishers.
#[derive(Debug)]
pub struct Overall {
    /// The times (ns since the Unix epoch) of the first and the last message of the recording.
    pub times: Option<(i64, i64)>,
    /// The rate from the first to the last message of the topic, in Hz. NaN with fewer than two messages.
    pub rate: f64,
    /// The size of all messages of the topic, in bytes. `None` if unknown.
    pub bytes: Option<u64>,
    /// Messages that were read but not measured, because they were too late, or because they have no time on the clock
    /// that the windows use.
    pub unmeasured: u64,
    pub metrics: Vec<RecordedMetric>,
}

impl Overall {
    /// Returns the bytes per second over the whole recording. NaN if unknown.
    pub fn bandwidth(&self) -> f64 {
        let length = self.times.map_or(0, |(start, stop)| stop.saturating_sub(start));
        match self.bytes {
            Some(bytes) if length > 0 => bytes as f64 / (length as f64 / 1e9),
            _ => f64::NAN,
        }
    }
}

pub fn write_table(to: &mut impl Write, topics: &[(&Row, Overall)], now: Instant) -> io::Result<()> {
    let name_of = |row: &Row| format::name(&row.name);
    let widths = topics.iter().map(|(row, _)| name_of(row).chars().count());
    let width = widths.max().unwrap_or_default().clamp(20, 48);
    writeln!(
        to,
        "{:width$}                     -------- period ms -------- ---------- age ms ---------",
        ""
    )?;
    writeln!(
        to,
        "{:width$} pubs rate Hz    B/s   mean    p50    p99    max   mean    p50    p99    max received  lost state",
        "topic"
    )?;
    for (row, overall) in topics {
        let publishers = row.publisher_count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        let mut line = format!(
            "{:width$} {publishers:>4} {:>7} {:>6}",
            format::end_of(&name_of(row), width),
            figure(overall.rate),
            figure(overall.bandwidth())
        );
        for metric in ["message_period", "message_age"] {
            let recorded = overall.metrics.iter().find(|recorded| recorded.name == metric);
            let value = |get: fn(&RecordedMetric) -> f64| recorded.map_or(f64::NAN, get);
            for value in [
                value(|recorded| recorded.figures.mean()),
                value(|recorded| recorded.quantile(0.5)),
                value(|recorded| recorded.quantile(0.99)),
                value(|recorded| recorded.figures.max()),
            ] {
                line += &format!(" {:>6}", figure(value));
            }
        }
        let (received, lost) = (count(row.received), count_if_known(row.lost));
        line += &format!(" {received:>8} {lost:>5} {}", row.status(now).text());
        writeln!(to, "{}", line.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{json, Value};

    use super::*;
    use crate::{
        recording::Merged,
        testing::{at, distribution, figures, row, S},
    };

    fn overall() -> Overall {
        let mut period = RecordedMetric::new("message_period", "ms");
        period.add(&Merged::from(&figures(10.0, 100)), Some(&distribution(&[10.0; 100])));
        let metrics = vec![RecordedMetric::new("message_age", "ms"), period];
        Overall { times: Some((S, 3 * S)), rate: 100.0, bytes: Some(64_000), unmeasured: 0, metrics }
    }

    #[test]
    fn the_table_and_the_objects_have_the_figures_of_all_messages() {
        let rows = [row("/imu", 100.0, 0), row("/camera\u{1b}[2J", 100.0, 3)];
        let topics: Vec<_> = rows.iter().map(|row| (row, overall())).collect();
        let mut table = vec![];
        write_table(&mut table, &topics, at(100)).unwrap();
        assert_eq!(
            String::from_utf8(table).unwrap(),
            "                                         -------- period ms -------- ---------- age ms ---------\n\
             topic                pubs rate Hz    B/s   mean    p50    p99    max   mean    p50    p99    max received  lost state\n\
             /imu                    1   100.0  32000  10.00  10.00  10.00  10.00      -      -      -      -     1234     0\n\
             /camera\\u{1b}[2J        1   100.0  32000  10.00  10.00  10.00  10.00      -      -      -      -     1234     3 LOSS 3\n"
        );
        let mut to = vec![];
        let imu = row("/imu", 100.0, 3);
        crate::report::Report::new(&mut to, true).write_overall(&imu, &overall()).unwrap();
        let json: Value = serde_json::from_slice(&to).unwrap();
        for (pointer, expected) in [
            ("/topic", json!("/imu")),
            ("/recording/received", json!(1234)),
            ("/recording/lost", json!(3)),
            ("/recording/rate", json!(100.0)),
            ("/recording/bandwidth", json!(32_000.0)),
            ("/recording/metrics/message_period/unit", json!("ms")),
            ("/recording/metrics/message_period/count", json!(100)),
            ("/recording/metrics/message_period/p99", json!(10.0)),
            ("/recording/metrics/message_period/p99_9", Value::Null),
            ("/recording/metrics/message_age/mean", Value::Null),
            ("/recording/metrics/message_age/p50", Value::Null),
        ] {
            assert_eq!(json.pointer(pointer), Some(&expected), "{pointer}");
        }
    }
}
