// SPDX-License-Identifier: Apache-2.0

//! Tables in Markdown, whose columns are aligned for a terminal.

use std::fmt;

/// A table. Each row is a text, which consists of cells separated by ` | `. The first row is the header.
pub struct Table(Vec<String>);

impl Table {
    pub fn new(header: &str) -> Table {
        Table(vec![header.to_owned()])
    }

    pub fn row(&mut self, cells: String) {
        self.0.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<Vec<&str>> = self.0.iter().map(|row| row.split(" | ").collect()).collect();
        let width = |column: usize| {
            rows.iter().filter_map(|row| Some(row.get(column)?.chars().count())).max().unwrap_or(0)
        };
        for (number, row) in rows.iter().enumerate() {
            for (column, cell) in row.iter().enumerate() {
                write!(f, "| {cell:<width$} ", width = width(column))?;
            }
            writeln!(f, "|")?;
            if number == 0 {
                (0..row.len()).try_for_each(|column| write!(f, "|{}", "-".repeat(width(column) + 2)))?;
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}

/// Returns a quantile, interpolated between two values. The median of an even count is the mean of the middle two.
pub fn quantile(values: impl IntoIterator<Item = f64>, quantile: f64) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let place = values.len().saturating_sub(1) as f64 * quantile;
    match (values.get(place.floor() as usize), values.get(place.ceil() as usize)) {
        (Some(below), Some(above)) => below + (above - below) * place.fract(),
        _ => f64::NAN,
    }
}

pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    quantile(values, 0.5)
}
