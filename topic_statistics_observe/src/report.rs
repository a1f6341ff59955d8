// SPDX-License-Identifier: Apache-2.0

//! The output of windows: lines for people, or JSON for programs.

use std::{
    io::{self, Write},
    time::Instant,
};

use serde::Serialize;
use topic_statistics_core::health::Change;

use crate::{
    format::{self, count_if_known, end_of, figure},
    json,
    overall::Overall,
    row::{Row, Window},
};

#[derive(Debug)]
pub struct Report<W: Write> {
    to: W,
    is_json: bool,
    lines: usize,
    /// The width of the column of names, in characters.
    width: usize,
}

impl<W: Write> Report<W> {
    /// The number of lines after which the header is repeated.
    const LINES: usize = 50;

    /// Returns a report that writes JSON if `is_json` is set, and lines otherwise.
    pub fn new(to: W, is_json: bool) -> Self {
        Self { to, is_json, lines: 0, width: 0 }
    }

    /// Writes the last window of a topic. Does nothing if the topic has no window.
    pub fn write(&mut self, row: &Row, now: Instant) -> io::Result<()> {
        let Some(window) = &row.window else { return Ok(()) };
        if self.is_json {
            return self.write_object(&json::window(row, window, now));
        }
        self.write_plain(row, window, now)?;
        self.to.flush()
    }

    /// Writes a change of a topic's health as a JSON object. A report of lines shows only windows.
    pub fn write_change(&mut self, topic: &str, change: &Change) -> io::Result<()> {
        self.write_object(&json::change(topic, change))
    }

    /// Writes a JSON object that says that a topic has a new subscription. A report of lines shows only windows.
    pub fn write_resubscribed(&mut self, row: &Row) -> io::Result<()> {
        self.write_object(&json::resubscribed(row))
    }

    /// Writes the statistics of a topic over a recording as a JSON object. A report of lines shows only windows.
    pub fn write_overall(&mut self, row: &Row, overall: &Overall) -> io::Result<()> {
        self.write_object(&json::overall(row, overall))
    }

    fn write_object(&mut self, object: &impl Serialize) -> io::Result<()> {
        if self.is_json {
            json::write_object(&mut self.to, object)?;
            self.to.flush()?;
        }
        Ok(())
    }

    fn write_plain(&mut self, row: &Row, window: &Window, now: Instant) -> io::Result<()> {
        let name = format::name(&row.name);
        let width = name.chars().count().clamp(20, 48);
        if self.lines % Self::LINES == 0 || width > self.width {
            self.width = self.width.max(width);
            let width = self.width;
            let [first, second] = row.kind.titles().map(|title| format!(" {title} "));
            writeln!(
                self.to,
                "{:width$}                     {first:-^27} -last minute- {second:-^13} -last minute-",
                ""
            )?;
            writeln!(
                self.to,
                "{:width$} pubs rate Hz    B/s   mean    min    max  stdev    p50    p99   mean    max    p50    p99  lost state",
                row.kind.noun()
            )?;
            self.lines = 0;
        }
        self.lines += 1;
        let metrics = row.metrics();
        let [first, second] = metrics.map(|metric| row.figures(metric.name()));
        let publishers = row.publisher_count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        let mut line = format!(
            "{:width$} {publishers:>4} {:>7}",
            end_of(&name, self.width),
            figure(window.rate),
            width = self.width
        );
        let quantile = |metric, quantile| row.quantile(metric, quantile, now);
        for value in [
            window.bandwidth(),
            first.average,
            first.minimum,
            first.maximum,
            first.standard_deviation,
            quantile(metrics[0], 0.5),
            quantile(metrics[0], 0.99),
            second.average,
            second.maximum,
            quantile(metrics[1], 0.5),
            quantile(metrics[1], 0.99),
        ] {
            line += &format!(" {:>6}", figure(value));
        }
        line += &format!(" {:>5} {}", count_if_known(window.lost), row.status(now).text());
        writeln!(self.to, "{}", line.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, distribution, row, window, S};
    use serde_json::{json, Value};
    use topic_statistics_core::{Metric, Summary};

    fn written(is_json: bool, rows: &[Row]) -> String {
        let mut to = vec![];
        let mut report = Report::new(&mut to, is_json);
        rows.iter().for_each(|row| report.write(row, at(100)).unwrap());
        String::from_utf8(to).unwrap()
    }

    fn imu() -> Row {
        let mut imu = row("/imu", 100.0, 0);
        imu.last_minute.add(Metric::MessagePeriod, &distribution(&[10.0; 10]), at(100));
        imu
    }

    #[test]
    fn lines_are_aligned_below_their_header() {
        assert_eq!(
            written(false, &[imu(), row("/camera/image_raw", 30.0, 3)]),
            "                                         -------- period ms -------- -last minute- -- age ms --- -last minute-\n\
             topic                pubs rate Hz    B/s   mean    min    max  stdev    p50    p99   mean    max    p50    p99  lost state\n\
             /imu                    1   100.0  32000  10.00  9.000  11.00  0.500  10.00      -  2.500  3.500      -      -     0\n\
             /camera/image_raw       1   30.00   9600  33.33  32.33  34.33  0.500      -      -  2.500  3.500      -      -     3 LOSS 3\n"
        );
        // The header is repeated after 50 lines, and before a longer name.
        let longer = row("/a/very/much/longer/name/of/an/imu", 1.0, 0);
        for rows in [vec![imu(); 60], vec![imu(), longer]] {
            assert_eq!(written(false, &rows).matches("topic ").count(), 2);
        }
    }

    #[test]
    fn an_object_has_the_window_and_null_for_what_was_not_measured() {
        let mut imu = imu();
        let mut last = Window { lost: None, ..window(101, 100.0, 1) };
        last.metrics[0].figures = Summary::default();
        imu.add_window(last);
        let json: Value = serde_json::from_str(&written(true, &[imu])).unwrap();
        for (pointer, expected) in [
            ("/topic", json!("/imu")),
            ("/window_stop", json!(101 * S)),
            ("/rate", json!(100.0)),
            ("/state", json!("loss")),
            ("/lost", Value::Null),
            ("/metrics/message_age/mean", Value::Null),
            ("/metrics/message_age/count", json!(0)),
            ("/metrics/message_period/max", json!(11.0)),
            ("/bytes", json!(32_000)),
            ("/bandwidth", json!(32_000.0)),
            ("/last_minute/message_period/unit", json!("ms")),
            ("/last_minute/message_period/count", json!(10)),
            ("/last_minute/message_period/p50", json!(10.0)),
            ("/last_minute/message_period/p90", json!(10.0)),
            ("/last_minute/message_period/max", json!(10.0)),
            ("/last_minute/message_period/p99", Value::Null), // too few samples
            ("/last_minute/message_period/p99_9", Value::Null),
        ] {
            assert_eq!(json.pointer(pointer), Some(&expected), "{pointer}");
        }
        assert_eq!(json["last_minute"].as_object().unwrap().len(), 1);
    }

    #[test]
    fn no_name_reaches_the_terminal_unescaped_and_json_keeps_it() {
        let hostile = "x\u{1b}]0;PWNED\u{7}\u{1b}[2J\n/imu 1 100.0\u{7f}\u{9b}2J\u{202e}\u{1f600}\"\\";
        let rows = [row(hostile, 100.0, 0), row(&"y".repeat(100_000), 1.0, 0)];
        let plain = written(false, &rows);
        let is_plain = !plain.contains(|c: char| c != '\n' && (c.is_control() || c == '\u{202e}'));
        assert!(is_plain && plain.lines().all(|line| line.chars().count() < 200), "{plain:?}");
        let json = written(true, &rows[..1]);
        assert!(json.trim_end().bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{json:?}");
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["topic"], hostile);
    }
}
