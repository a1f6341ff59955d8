// SPDX-License-Identifier: Apache-2.0

//! Figures that have to be equal, and figures that may not grow.

use anyhow::{ensure, Result};

use crate::{listener::Row, windows::Windows};

/// Returns the faults of a subscription: the library's figures that differ from the senders' numbers.
pub fn differences(row: &Row) -> Vec<String> {
    let mut differences = vec![];
    let mut compare = |what: &str, library: Option<u64>, truth: u64| {
        if library != Some(truth) {
            let library = library.map_or("unknown".to_owned(), |library| library.to_string());
            differences.push(format!(
                "{}: {what}: {library} by the library, {truth} by the senders' numbers",
                row.name
            ));
        }
    };
    let Some(counted) = row.counted else { return differences };
    let Windows { missing, inconsistent, unrecorded, sum, received, .. } = row.windows;
    compare("messages received", Some(counted.received), row.received);
    // As documented, losses are unknown before the first message, and after messages that were counted without being
    // measured.
    if counted.lost.is_some() || (unrecorded == 0 && row.received > 0) {
        compare("messages lost", counted.lost, row.lost);
        compare("messages out of order", counted.late, row.late);
        compare("duplicates", counted.duplicates, 0);
        compare("publishers", counted.publishers, row.publishers);
    }
    if missing > 0 {
        differences
            .push(format!("{}: {missing} windows do not start where the one before stopped", row.name));
    }
    if inconsistent > 0 {
        differences.push(format!(
            "{}: the counts of {inconsistent} windows are not the difference of the totals",
            row.name
        ));
    }
    if sum != received {
        differences.push(format!(
            "{}: the windows have {sum} messages, the totals at the last window's end {received}",
            row.name
        ));
    }
    differences
}

/// Fewer samples show no rise.
const FEWEST_SAMPLES: usize = 12;

/// A straight line through points by least squares: its slope, and the slope's standard error.
///
/// None for fewer than three points, and for points at one place.
pub fn slope(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    if points.len() < 3 {
        return None;
    }
    let mean = |coordinate: fn(&(f64, f64)) -> f64| points.iter().map(coordinate).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
    let x_squares: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    if x_squares <= 0.0 {
        return None;
    }
    let products: f64 = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    let slope = products / x_squares;
    let residuals: f64 = points.iter().map(|(x, y)| (y - y_mean - slope * (x - x_mean)).powi(2)).sum();
    Some((slope, (residuals / (count - 2.0) / x_squares).sqrt()))
}

/// Errors if the heap has risen steadily beyond the control's, over the second half of the samples: times in hours
/// and kB.
pub fn check_growth(samples: &[(f64, f64)], highest: f64, process: &str) -> Result<()> {
    let half = &samples[samples.len() / 2..];
    if samples.len() < FEWEST_SAMPLES {
        return Ok(());
    }
    if let (Some((slope, error)), [first, .., last]) = (slope(half), half) {
        let hours = last.0 - first.0;
        let (rise, error) = (slope * hours, error * hours);
        ensure!(
            rise - 4.0 * error < highest,
            "{process}'s heap rose by {rise:.0} kB (standard error {error:.0}) more than the control's in {:.1} min; \
             {highest} kB is the limit",
            hours * 60.0
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::Counted;

    fn row() -> Row {
        let counted =
            Counted { received: 90, lost: Some(10), late: Some(0), duplicates: Some(0), publishers: Some(2) };
        let windows = Windows { windows: 3, sum: 80, received: 80, ..Windows::default() };
        Row {
            name: "/listener:/soak_1".to_owned(),
            received: 90,
            lost: 10,
            publishers: 2,
            counted: Some(counted),
            windows,
            ..Row::default()
        }
    }

    #[test]
    fn equal_figures_have_no_difference() {
        assert_eq!(differences(&row()), [] as [String; 0]);
    }

    #[test]
    fn each_figure_that_differs_is_reported_with_both_values() {
        type Change = fn(&mut Row);
        let changes: [(Change, &str); 7] = [
            (|row| row.received += 1, "messages received: 90 by the library, 91 by"),
            (|row| row.lost -= 1, "messages lost: 10 by the library, 9 by"),
            (|row| row.late += 1, "messages out of order: 0 by the library, 1 by"),
            (|row| row.publishers += 1, "publishers: 2 by the library, 3 by"),
            (|row| row.windows.missing = 4, "4 windows do not start"),
            (|row| row.windows.inconsistent = 5, "5 windows are not"),
            (
                |row| row.windows.sum += 1,
                "the windows have 81 messages, the totals at the last window's end 80",
            ),
        ];
        for (change, expected) in changes {
            let mut row = row();
            change(&mut row);
            let found = differences(&row);
            assert!(matches!(&found[..], [one] if one.contains(expected)), "{found:?} is not {expected:?}");
        }
    }

    #[test]
    fn losses_are_unknown_only_after_messages_that_were_not_measured() {
        let mut row = row();
        let unknown =
            Counted { lost: None, late: None, duplicates: None, publishers: None, ..row.counted.unwrap() };
        row.counted = Some(unknown);
        assert_eq!(differences(&row).len(), 4);
        row.windows.unrecorded = 1;
        assert_eq!(differences(&row), [] as [String; 0]);
    }

    #[test]
    fn a_line_has_its_slope_and_noise_its_error() {
        let (exact, error) = slope(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]).unwrap();
        assert!((exact - 2.0).abs() < 1e-12 && error < 1e-12, "{exact} {error}");
        let (noisy, error) = slope(&[(0.0, 0.0), (1.0, 3.0), (2.0, 0.0)]).unwrap();
        assert!(noisy.abs() < 1e-12 && (error - 3_f64.sqrt()).abs() < 1e-12, "{noisy} {error}");
        assert_eq!(slope(&[(0.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(slope(&[(1.0, 1.0); 3]), None);
    }
}
