// SPDX-License-Identifier: Apache-2.0

//! The bounds of classic histogram buckets.

use std::{fmt, str::FromStr, sync::Arc};

/// The upper bounds of classic buckets, in seconds, ascending. Without bounds, only native histograms are written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets(Arc<[f64]>);

impl Buckets {
    pub const RIGHT: &str = "at most 50 numbers of seconds above 0, ascending: 0.001,0.01,0.1";
    const MAX: usize = 50;

    pub fn bounds(&self) -> &[f64] {
        &self.0
    }

    /// Returns the number of time series of a classic histogram: one per bound, and three for infinity, sum and count.
    pub fn series(&self) -> usize {
        match self.0.len() {
            0 => 0,
            bounds => bounds + 3,
        }
    }
}

impl FromStr for Buckets {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = text.split(',').filter(|_| !text.trim().is_empty());
        let bounds: Result<Vec<f64>, _> = numbers.map(|number| number.trim().parse()).collect();
        let bounds = bounds.map_err(|_| Self::RIGHT)?;
        let is_right = bounds.len() <= Self::MAX
            && bounds.iter().all(|bound| *bound > 0.0 && bound.is_finite())
            && bounds.is_sorted_by(|bound, next| bound < next);
        is_right.then(|| Self(bounds.into())).ok_or(Self::RIGHT)
    }
}

impl fmt::Display for Buckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bounds: Vec<_> = self.0.iter().map(f64::to_string).collect();
        f.write_str(&bounds.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_ascending_and_above_0() {
        for (text, bounds) in [("", &[][..]), ("0.001, 0.5,1e1", &[0.001, 0.5, 10.0])] {
            let buckets: Buckets = text.parse().unwrap();
            assert_eq!(buckets.bounds(), bounds);
            assert_eq!(buckets.to_string().parse(), Ok(buckets));
        }
        let many = (1..=51).map(|bound| bound.to_string()).collect::<Vec<_>>().join(",");
        for wrong in ["0", "-1", "2,1", "1,1", "1,", "NaN", "1,inf", "x", &many] {
            assert_eq!(wrong.parse::<Buckets>(), Err(Buckets::RIGHT), "{wrong}");
        }
    }
}
