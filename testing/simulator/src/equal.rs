// SPDX-License-Identifier: Apache-2.0

//! Compares values.

use std::fmt::Debug;

/// Returns whether two figures differ by at most 1e-9 of `size`, the size of the samples, or are both NaN.
pub fn is_same(ours: f64, expected: f64, size: f64) -> bool {
    (ours.is_nan() && expected.is_nan()) || (ours - expected).abs() <= 1e-9 * size.abs().max(1.0)
}

/// Returns the error that `error` creates, unless `is_good` is true.
pub fn ensure(is_good: bool, error: impl FnOnce() -> String) -> Result<(), String> {
    if is_good {
        Ok(())
    } else {
        Err(error())
    }
}

/// Errors if two values differ.
pub fn equal<T: PartialEq + Debug>(name: &str, ours: T, expected: T) -> Result<(), String> {
    ensure(ours == expected, || format!("{name} {ours:?}, expected {expected:?}"))
}
