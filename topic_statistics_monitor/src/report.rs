// SPDX-License-Identifier: Apache-2.0

//! Lines for people and for programs.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    time::Instant,
};

use serde::Serialize;

use crate::{
    format::{self, count_if_known, end_of, figure},
    row::{Measured, Reading, Row, Sender},
};

/// Writes a line for each topic and window.
pub struct Report<W: Write> {
    to: W,
    is_json: bool,
    /// Lines since the header.
    lines: usize,
    /// Of the topics' names.
    width: usize,
}

impl<W: Write> Report<W> {
    /// From header to header.
    const LINES: usize = 50;

    pub fn new(to: W, is_json: bool) -> Self {
        Self { to, is_json, lines: 0, width: 0 }
    }

    /// Writes what came of a topic's last window.
    pub fn write(&mut self, row: &Row, now: Instant) -> io::Result<()> {
        let Some(reading) = &row.reading else { return Ok(()) };
        if self.is_json {
            let mut json = serde_json::Serializer::with_formatter(&mut self.to, Ascii);
            Line::of(row, reading, now).serialize(&mut json)?;
            writeln!(self.to)?;
        } else {
            self.write_plain(row, reading, now)?;
        }
        self.to.flush()
    }

    fn write_plain(&mut self, row: &Row, reading: &Reading, now: Instant) -> io::Result<()> {
        let name = format::name(&row.name);
        let width = name.chars().count().clamp(20, 48);
        if self.lines % Self::LINES == 0 || width > self.width {
            self.width = self.width.max(width);
            let width = self.width;
            writeln!(self.to, "{:width$}           ----------- period ms ----------- --- age ms ---", "")?;
            writeln!(
                self.to,
                "{:width$} pubs rate Hz    mean     min     max std dev    mean    max  lost state",
                "topic"
            )?;
            self.lines = 0;
        }
        self.lines += 1;
        let (period, age) = (row.summary("message_period"), row.summary("message_age"));
        let publishers = row.publishers.map_or_else(|| "-".to_owned(), |publishers| publishers.to_string());
        let line = format!(
            "{name:width$} {publishers:>4} {rate:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>6} {lost:>5} {state}",
            figure(period.average),
            figure(period.minimum),
            figure(period.maximum),
            figure(period.standard_deviation),
            figure(age.average),
            figure(age.maximum),
            name = end_of(&name, self.width),
            width = self.width,
            rate = figure(reading.rate),
            lost = count_if_known(reading.lost),
            state = row.status(now).text(),
        );
        writeln!(self.to, "{}", line.trim_end())
    }
}

/// Writes JSON of ASCII only: a reader gets each name as it is, and a terminal that shows the lines obeys none of it.
struct Ascii;

impl serde_json::ser::Formatter for Ascii {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, to: &mut W, fragment: &str) -> io::Result<()> {
        for c in fragment.chars() {
            if c == ' ' || c.is_ascii_graphic() {
                write!(to, "{c}")?;
                continue;
            }
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(to, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

/// An object of `--json`: docs/topic_monitor.md says what it holds.
#[derive(Serialize)]
struct Line<'a> {
    topic: &'a str,
    r#type: Option<&'a str>,
    state: &'static str,
    problem: Option<&'a str>,
    window_start: i64,
    window_stop: i64,
    clock_step: Option<i64>,
    publishers: Option<usize>,
    nodes: &'a [String],
    qos: Option<&'a str>,
    rate: f64,
    received: Option<u64>,
    lost: Option<u64>,
    out_of_order: Option<u64>,
    since_last_message: f64,
    total: Total,
    metrics: BTreeMap<&'a str, Figures<'a>>,
    senders: Vec<SenderLine<'a>>,
}

#[derive(Serialize)]
struct Total {
    received: u64,
    lost: Option<u64>,
    out_of_order: Option<u64>,
}

#[derive(Serialize)]
struct Figures<'a> {
    unit: &'a str,
    mean: f64,
    min: f64,
    max: f64,
    std_dev: f64,
    count: u64,
}

#[derive(Serialize)]
struct SenderLine<'a> {
    gid: &'a str,
    node: Option<&'a str>,
    received: u64,
    lost: Option<u64>,
    out_of_order: Option<u64>,
    last_message: i64,
}

impl<'a> Line<'a> {
    fn of(row: &'a Row, reading: &'a Reading, now: Instant) -> Self {
        use crate::row::Status;
        let state = match row.status(now) {
            Status::Error => "error",
            Status::Stale(_) => "stale",
            Status::Loss(_) => "loss",
            Status::Waiting => "waiting",
            Status::Good => "good",
        };
        let figures = |measured: &'a Measured| {
            let summary = &measured.summary;
            let figures = Figures {
                unit: &measured.unit,
                mean: summary.average,
                min: summary.minimum,
                max: summary.maximum,
                std_dev: summary.standard_deviation,
                count: summary.sample_count,
            };
            (&*measured.name, figures)
        };
        let sender = |sender: &'a Sender| SenderLine {
            gid: &sender.gid,
            node: sender.node.as_deref(),
            received: sender.received,
            lost: sender.lost,
            out_of_order: sender.out_of_order,
            last_message: sender.last_message,
        };
        Self {
            topic: &row.name,
            r#type: row.message_type.as_deref(),
            state,
            problem: row.problem.as_ref().map(|problem| problem.text()),
            window_start: reading.start,
            window_stop: reading.stop,
            clock_step: reading.clock_step,
            publishers: row.publishers,
            nodes: &row.nodes,
            qos: (!row.qos.is_empty()).then_some(&row.qos),
            rate: reading.rate,
            received: reading.received,
            lost: reading.lost,
            out_of_order: reading.out_of_order,
            since_last_message: row.silence(now),
            total: Total { received: row.received, lost: row.lost, out_of_order: row.out_of_order },
            metrics: reading.metrics.iter().map(figures).collect(),
            senders: row.senders.iter().map(sender).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::{at, reading, row, S};

    fn written(is_json: bool, rows: &[Row]) -> String {
        let mut to = vec![];
        let mut report = Report::new(&mut to, is_json);
        rows.iter().for_each(|row| report.write(row, at(100)).unwrap());
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn lines_are_aligned_below_their_header() {
        let text = written(false, &[row("/imu", 100.0, 0), row("/camera/image_raw", 30.0, 3)]);
        assert_eq!(
            text,
            "                               ----------- period ms ----------- --- age ms ---\n\
             topic                pubs rate Hz    mean     min     max std dev    mean    max  lost state\n\
             /imu                    1   100.0   10.00   9.000   11.00   0.500   2.500  3.500     0\n\
             /camera/image_raw       1   30.00   33.33   32.33   34.33   0.500   2.500  3.500     3 LOSS 3\n"
        );
    }

    #[test]
    fn the_header_comes_again_rarely_and_for_longer_names() {
        let mut rows = vec![row("/imu", 100.0, 0); 60];
        assert_eq!(written(false, &rows).matches("topic").count(), 2);
        rows.truncate(1);
        rows.push(row("/a/very/much/longer/name/of/an/imu", 1.0, 0));
        assert_eq!(written(false, &rows).matches("topic ").count(), 2);
    }

    #[test]
    fn an_object_has_the_window_and_null_for_what_was_not_measured() {
        let mut imu = row("/imu", 100.0, 1);
        let mut window = reading(101, 100.0, 1);
        window.metrics[0].summary = crate::row::NOTHING;
        window.lost = None;
        imu.take(window);
        let json: serde_json::Value = serde_json::from_str(&written(true, &[imu])).unwrap();
        assert_eq!(json["topic"], "/imu");
        assert_eq!(json["window_stop"], 101 * S);
        assert_eq!(json["rate"], 100.0);
        assert_eq!(json["state"], "loss");
        assert!(json["lost"].is_null() && json["metrics"]["message_age"]["mean"].is_null());
        assert_eq!(json["metrics"]["message_age"]["count"], 0);
        assert_eq!(json["metrics"]["message_period"]["max"], 11.0);
    }
    #[test]
    fn no_name_reaches_the_terminal_as_it_is_and_json_keeps_it() {
        let hostile = "x\u{1b}]0;PWNED\u{7}\u{1b}[2J\n/imu 1 100.0\u{7f}\u{9b}2J\u{202e}\u{1f600}\"\\";
        let rows = [row(hostile, 100.0, 0), row(&"y".repeat(100_000), 1.0, 0)];
        let plain = written(false, &rows[..1]);
        assert!(
            plain.lines().count() == 3 && !plain.contains(|c: char| c.is_control() && c != '\n'),
            "{plain:?}"
        );
        assert!(written(false, &rows[1..]).lines().all(|line| line.chars().count() < 200));
        let json = written(true, &rows[..1]);
        assert!(json.trim_end().bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{json:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["topic"], hostile);
    }
}
