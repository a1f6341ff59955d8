// SPDX-License-Identifier: Apache-2.0

//! The index of a sample's bucket, computed without rounding.
//!
//! At the scale `s`, bucket `i` has the samples in `(base^i, base^(i+1)]`, where `base = 2^(2^-s)`. A logarithm in
//! floating point puts samples near a boundary into the wrong bucket. So this module compares the bits of the sample
//! with the boundaries instead.

/// The largest scale: 256 buckets from one power of two to the next. This scale is also the largest schema of
/// Prometheus.
pub(super) const MAX_SCALE: i32 = 8;

/// The number of buckets from one power of two to the next at [`MAX_SCALE`].
const BUCKETS: usize = 1 << MAX_SCALE;

const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;

/// The mantissas are divided into 512 cells of equal length. No cell has more than one bucket boundary.
const CELLS: usize = 2 * BUCKETS;

/// The number of low bits of a mantissa that play no part in selecting the cell.
const CELL_BITS: u32 = MANTISSA_BITS - CELLS.trailing_zeros();

/// For each cell, the number to add to the low bits of a mantissa. In the sum of this number and the low bits, the bits
/// above the lowest [`CELL_BITS`] bits are the number of the bucket.
static CELL_OF_MANTISSA: [u64; CELLS] = cells();

/// Returns the bucket of a normal sample at [`MAX_SCALE`]. `magnitude` has the bits of the sample's absolute value.
///
/// At a smaller scale, the sample is in the bucket `index >> (MAX_SCALE - scale)`.
#[inline]
pub(super) fn index_of_normal(magnitude: u64) -> i32 {
    // A power of two is the last sample of its bucket. Powers of two are the only boundaries that are exact as an
    // `f64`. If 1 is subtracted from the bits of every sample, each bucket begins exactly at its lower boundary.
    let below = magnitude - 1;
    let cell = CELL_OF_MANTISSA[(below >> CELL_BITS) as usize % CELLS];
    let bucket = (cell + below % (1 << CELL_BITS)) >> CELL_BITS;
    let exponent = (below >> MANTISSA_BITS) as i32 - (f64::MAX_EXP - 1);
    exponent * BUCKETS as i32 + bucket as i32
}

/// Returns the bucket of any sample at a scale. `magnitude` is the sample's absolute value, and not zero.
pub(super) fn index_of(magnitude: f64, scale: i32) -> i32 {
    let index = if magnitude < f64::MIN_POSITIVE {
        index_of_subnormal(magnitude)
    } else {
        index_of_normal(magnitude.to_bits())
    };
    index >> (MAX_SCALE - scale)
}

/// Returns the bucket of a subnormal sample at [`MAX_SCALE`]. `magnitude` is the sample's absolute value, and not zero.
pub(super) fn index_of_subnormal(magnitude: f64) -> i32 {
    const SHIFT: i32 = 64;
    // The multiplication does not round, and its result is a normal number.
    let normal = magnitude * (1_u128 << SHIFT) as f64;
    index_of_normal(normal.to_bits()) - SHIFT * BUCKETS as i32
}

/// Returns `base^index`. If the index is not an integer, the result is between two boundaries.
pub(super) fn boundary(index: f64, scale: i32) -> f64 {
    (index / f64::from(1 << scale)).exp2()
}

/// Returns the largest sample that is below a bucket: `base^index`, rounded down.
pub(super) fn largest_below(index: i32, scale: i32) -> f64 {
    let is_below = |bits: u64| index_of(f64::from_bits(bits), scale) < index;
    // The result of `exp2` is wrong by a few bits at most, so the search begins 8 floating-point values below the
    // result.
    let mut bits = boundary(index.into(), scale).to_bits().saturating_sub(8).max(1);
    while is_below(bits + 1) {
        bits += 1;
    }
    f64::from_bits(bits)
}

const fn cells() -> [u64; CELLS] {
    let boundaries = boundaries();
    let mut cells = [0; CELLS];
    let (mut cell, mut bucket) = (0, 0);
    while cell < CELLS {
        let start = (cell as u64) << CELL_BITS;
        // If a cell contains the next boundary, the mantissas of this cell that are not below the boundary belong to
        // the next bucket.
        let in_cell = boundaries[bucket + 1] - start;
        if in_cell < 1 << CELL_BITS {
            bucket += 1;
            cells[cell] = ((bucket as u64) << CELL_BITS) - in_cell;
            assert!(boundaries[bucket + 1] - start >= 1 << CELL_BITS, "a cell has two boundaries");
        } else {
            cells[cell] = (bucket as u64) << CELL_BITS;
        }
        cell += 1;
    }
    cells
}

/// Returns the integer part of each boundary's mantissa, `(2^(bucket/256) - 1) * 2^52`, and `2^52` as the last number.
const fn boundaries() -> [u64; BUCKETS + 1] {
    /// 2^(1/256) with 127 bits after the point. The error of the powers of this number is below 2^-116; a test compares
    /// the boundaries with exact boundaries.
    const ROOT: u128 = 0x8058_d7d2_d5e5_f6b0_94d5_89f6_08ee_4aa2;
    let mut boundaries = [1 << MANTISSA_BITS; BUCKETS + 1];
    let (mut bucket, mut power) = (0, 1_u128 << 127);
    while bucket < BUCKETS {
        boundaries[bucket] = (power >> (127 - MANTISSA_BITS)) as u64 - (1 << MANTISSA_BITS);
        bucket += 1;
        power = product(power, ROOT);
    }
    boundaries
}

/// Returns the product of two numbers with 127 bits after the point. The product is at most 2.
const fn product(a: u128, b: u128) -> u128 {
    let (a_high, a_low) = (a >> 64, a as u64 as u128);
    let (b_high, b_low) = (b >> 64, b as u64 as u128);
    let high = a_high * b_high;
    let middle = ((a_high * b_low) >> 63) + ((a_low * b_high) >> 63);
    match high.checked_mul(2) {
        Some(doubled) => doubled.saturating_add(middle),
        None => u128::MAX,
    }
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;
    use proptest::prelude::*;

    use super::*;

    /// Returns the bucket of a sample at a scale, computed only with integers. The sample is `m * 2^e`. Its bucket is
    /// the last integer below `2^scale * log2(sample)`: `log2(m^(2^scale))`, rounded up, minus one, plus `2^scale * e`.
    fn exact(sample: f64, scale: u32) -> i32 {
        let bits = sample.to_bits();
        let (fraction, field) = (bits % (1 << 52), (bits >> 52) as i32);
        let (m, e) = if field == 0 { (fraction, -1074) } else { (fraction | 1 << 52, field - 1075) };
        let power = BigUint::from(m).pow(1 << scale);
        let is_power_of_two = power.count_ones() == 1;
        power.bits() as i32 - 1 - i32::from(is_power_of_two) + (e << scale)
    }

    fn index(sample: f64) -> i32 {
        index_of(sample, MAX_SCALE)
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn every_boundary_is_where_exact_arithmetic_has_it() {
        for (bucket, mantissa) in (0..BUCKETS).zip(boundaries()).skip(1) {
            let last = (1 << 52) + mantissa;
            let power = |mantissa: u64| BigUint::from(mantissa).pow(256);
            let boundary = BigUint::from(1_u8) << (52 * 256 + bucket);
            assert!(power(last) < boundary && boundary < power(last + 1), "boundary {bucket}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn the_samples_next_to_a_boundary_are_on_its_sides() {
        for exponent in [-1022, -20, -1, 0, 1, 9, 1023] {
            for (bucket, mantissa) in (0..BUCKETS).zip(boundaries()).skip(1) {
                let last = ((exponent + 1023) as u64) << 52 | mantissa;
                let expected = exponent * 256 + bucket as i32;
                let (below, above) = (index_of_normal(last), index_of_normal(last + 1));
                assert_eq!((below, above), (expected - 1, expected), "2^{exponent}, {bucket}");
                assert_eq!(
                    (exact(f64::from_bits(last), 8), exact(f64::from_bits(last + 1), 8)),
                    (below, above)
                );
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn a_power_of_two_is_the_last_sample_of_its_bucket() {
        for exponent in -1074..=1023 {
            let bits =
                if exponent < -1022 { 1 << (exponent + 1074) } else { ((exponent + 1023) as u64) << 52 };
            let power = f64::from_bits(bits);
            assert_eq!(index(power), exponent * 256 - 1);
            assert_eq!(index(power), exact(power, 8));
            let above = f64::from_bits(power.to_bits() + 1);
            assert_eq!(index(above), exact(above, 8));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn the_largest_sample_below_a_bucket_is_exact() {
        for scale in [2, 5, 8] {
            for index in (-1074 << scale..=1023 << scale).step_by(101) {
                let largest = largest_below(index, scale);
                let next = f64::from_bits(largest.to_bits() + 1);
                assert!(
                    exact(largest, scale as u32) < index && exact(next, scale as u32) >= index,
                    "{index}"
                );
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        #[cfg_attr(miri, ignore = "takes minutes")]
        fn the_bucket_of_any_sample_is_exact_at_every_scale(
            bits in 1..f64::INFINITY.to_bits(),
            scale in 0..=MAX_SCALE,
        ) {
            let sample = f64::from_bits(bits);
            prop_assert_eq!(index_of(sample, scale), exact(sample, scale as u32));
        }

        #[test]
        #[cfg_attr(miri, ignore = "takes minutes")]
        fn the_bucket_of_a_subnormal_sample_is_exact(bits in 1..f64::MIN_POSITIVE.to_bits()) {
            let sample = f64::from_bits(bits);
            prop_assert_eq!(index(sample), exact(sample, 8));
        }
    }
}
