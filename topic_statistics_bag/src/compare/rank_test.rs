// SPDX-License-Identifier: Apache-2.0

//! The Mann-Whitney U test.

/// The result of a Mann-Whitney U test.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankTest {
    /// The probability of a difference at least as large as the observed difference, if both sides have the same
    /// distribution.
    pub(super) p_value: f64,
    /// For all pairs of a value of the first side and a value of the second side: the share in which the second value
    /// is larger. A pair of equal values counts as half a pair.
    pub(super) superiority: f64,
}

/// Returns the ranks of values. The smallest value has rank 1. If values are equal, each of them gets the mean of their
/// ranks.
pub(super) fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|one, other| values[*one].total_cmp(&values[*other]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for equal in order.chunk_by(|one, other| values[*one] == values[*other]) {
        let rank = first as f64 + (equal.len() as f64 + 1.0) / 2.0;
        equal.iter().for_each(|place| ranks[*place] = rank);
        first += equal.len();
    }
    ranks
}

/// Tests whether the values of one side tend to be larger than those of the other side. The test is two-sided, with the
/// normal approximation, and corrected for ties (E. L. Lehmann, "Nonparametrics", 1975, section 1.4) and continuity.
pub(super) fn rank_test(before: &[f64], after: &[f64]) -> RankTest {
    let all = [before, after].concat();
    let ranks = ranks(&all);
    let (m, n) = (before.len() as f64, after.len() as f64);
    let total = m + n;
    let sum: f64 = ranks[before.len()..].iter().sum();
    let u = sum - n * (n + 1.0) / 2.0;
    let mut sorted = ranks;
    sorted.sort_by(f64::total_cmp);
    let ties: f64 = sorted
        .chunk_by(|one, other| one == other)
        .map(|equal| equal.len() as f64)
        .map(|count| count * count * count - count)
        .sum();
    let variance = m * n / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    let distance = ((u - m * n / 2.0).abs() - 0.5).max(0.0);
    let p_value = match variance > 0.0 {
        true => libm::erfc(distance / variance.sqrt() / std::f64::consts::SQRT_2),
        false => 1.0, // all values are equal
    };
    RankTest { p_value, superiority: u / (m * n) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values were computed by scipy 1.14: `mannwhitneyu(now, before, method="asymptotic")`.
    #[test]
    fn p_values_are_those_of_scipy() {
        let cases: [(&[f64], &[f64], f64, f64); 3] = [
            (
                &[1., 2., 3., 4., 5., 6., 7., 8.],
                &[3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5],
                49.0,
                0.08312293695990333,
            ),
            (
                &[1., 1., 2., 2., 3., 3., 4., 4.],
                &[2., 2., 2., 3., 3., 4., 5., 5., 5.],
                50.0,
                0.18310995050914847,
            ),
            (
                &[1., 2., 3., 4., 5., 6., 7., 8., 9., 10.],
                &[11., 12., 13., 14., 15., 16., 17., 18., 19., 20.],
                100.0,
                0.00018267179110955002,
            ),
        ];
        for (before, now, u, p) in cases {
            let test = rank_test(before, now);
            assert_eq!(test.superiority * (before.len() * now.len()) as f64, u);
            assert!((test.p_value - p).abs() < 1e-9, "{} {p}", test.p_value);
        }
        assert_eq!(rank_test(&[3.0; 9], &[3.0; 9]).p_value, 1.0);
    }
}
