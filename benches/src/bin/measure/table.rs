// SPDX-License-Identifier: Apache-2.0

//! Tables in Markdown, whose columns are aligned for a terminal.

use std::fmt;

/// A table. Each row is the text of its cells, with ` | ` between them; the first one is the header.
#[derive(Clone, Default)]
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

/// Interpolates between two values: the median of an even count is the mean of the middle two.
pub fn quantile(mut values: Vec<f64>, quantile: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = values.len().saturating_sub(1) as f64 * quantile;
    match (values.get(place.floor() as usize), values.get(place.ceil() as usize)) {
        (Some(below), Some(above)) => below + (above - below) * place.fract(),
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_count_is_the_mean_of_the_middle_two() {
        let eight = || vec![8.0, 1.0, 7.0, 2.0, 6.0, 3.0, 5.0, 4.0];
        assert_eq!([0.25, 0.5, 0.75].map(|q| quantile(eight(), q)), [2.75, 4.5, 6.25]);
        assert_eq!(quantile(vec![3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(vec![7.0], 0.75), 7.0);
    }

    #[test]
    fn no_runs_have_no_median() {
        assert!(quantile(vec![], 0.5).is_nan());
    }

    #[test]
    fn a_table_is_markdown_with_aligned_columns() {
        let mut table = Table::new(" | ns");
        table.row("the clock | 19.1".to_owned());
        assert_eq!(table.to_string(), "|           | ns   |\n|-----------|------|\n| the clock | 19.1 |\n");
    }
}
