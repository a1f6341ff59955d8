// SPDX-License-Identifier: Apache-2.0

//! Whether two values are the same.

use std::fmt::Debug;

/// Returns whether two figures are the same: to 1e-9 of the samples' size, or both NaN.
pub fn is_same(ours: f64, expected: f64, size: f64) -> bool {
    (ours.is_nan() && expected.is_nan()) || (ours - expected).abs() <= 1e-9 * size.abs().max(1.0)
}

/// Errors with both values unless they are equal.
pub fn equal<T: PartialEq + Debug>(name: &str, ours: T, expected: T) -> Result<(), String> {
    match ours == expected {
        true => Ok(()),
        false => Err(format!("{name} {ours:?}, expected {expected:?}")),
    }
}
