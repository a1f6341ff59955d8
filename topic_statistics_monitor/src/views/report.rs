// SPDX-License-Identifier: Apache-2.0

//! Lines for people, and JSON for programs.

use std::{
    io::{self, Write},
    time::Instant,
};

use crate::{
    format::{self, count_if_known, end_of, figure},
    row::{Row, Window},
    views::json,
};

/// Writes a line for each topic and window.
pub struct Report<W: Write> {
    to: W,
    is_json: bool,
    /// Lines since the header.
    lines: usize,
    /// The width of the column of names.
    width: usize,
}

impl<W: Write> Report<W> {
    /// The header is repeated after that many lines.
    const LINES: usize = 50;

    pub fn new(to: W, is_json: bool) -> Self {
        Self { to, is_json, lines: 0, width: 0 }
    }

    /// Writes the last window of a topic.
    pub fn write(&mut self, row: &Row, now: Instant) -> io::Result<()> {
        let Some(window) = &row.window else { return Ok(()) };
        if self.is_json {
            json::write(&mut self.to, row, window, now)?;
        } else {
            self.write_plain(row, window, now)?;
        }
        self.to.flush()
    }

    fn write_plain(&mut self, row: &Row, window: &Window, now: Instant) -> io::Result<()> {
        let name = format::name(&row.name);
        let width = name.chars().count().clamp(20, 48);
        if self.lines.is_multiple_of(Self::LINES) || width > self.width {
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
        let (period, age) = (row.figures("message_period"), row.figures("message_age"));
        let publishers = row.publisher_count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        let line = format!(
            "{name:width$} {publishers:>4} {rate:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>6} {lost:>5} {state}",
            figure(period.mean),
            figure(period.min),
            figure(period.max),
            figure(period.std_dev),
            figure(age.mean),
            figure(age.max),
            name = end_of(&name, self.width),
            width = self.width,
            rate = figure(window.rate),
            lost = count_if_known(window.lost),
            state = row.status(now).text(),
        );
        writeln!(self.to, "{}", line.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::{at, row, window, S};

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
        let mut window = window(101, 100.0, 1);
        window.metrics[0].figures = crate::row::Figures::NONE;
        window.lost = None;
        imu.add_window(window);
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
    fn no_name_reaches_the_terminal_unescaped_and_json_keeps_it() {
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
