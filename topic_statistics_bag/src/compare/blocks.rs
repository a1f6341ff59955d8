// SPDX-License-Identifier: Apache-2.0

//! The means of a quantity over blocks of consecutive windows.

use serde::{de::Error as _, Deserialize, Deserializer, Serialize};

/// The largest number of blocks of a quantity. When this number is reached, blocks are joined in pairs.
const MAX_BLOCKS: usize = 512;

/// The means of a quantity over blocks of consecutive windows, in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Blocks {
    /// The base-2 logarithm of the number of windows in a block.
    #[serde(rename = "log2_windows", deserialize_with = "read_size")]
    size: u32,
    #[serde(deserialize_with = "read_means")]
    means: Vec<f64>,
    /// The sum of the values in the last block, which is not complete yet. `windows` is the number of these values.
    #[serde(skip)]
    sum: f64,
    #[serde(skip)]
    windows: u64,
}

fn read_size<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    match u32::deserialize(from)? {
        size @ 41.. => Err(D::Error::custom(format!("A block has 2^{size} windows: 2^40 are the most"))),
        size => Ok(size),
    }
}

fn read_means<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
    let means = Vec::<f64>::deserialize(from)?;
    match means.len() {
        ..=MAX_BLOCKS if means.iter().all(|mean| mean.is_finite()) => Ok(means),
        ..=MAX_BLOCKS => Err(D::Error::custom("The mean of a block is no finite number")),
        count => Err(D::Error::custom(format!("There are {count} blocks: {MAX_BLOCKS} are the most"))),
    }
}

impl Blocks {
    /// Adds the value of a window. A value that is NaN or infinite is left out.
    pub(super) fn add(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.sum += value;
        self.windows += 1;
        if self.windows >> self.size == 0 {
            return;
        }
        let mean = self.sum / self.windows as f64;
        (self.sum, self.windows) = (0.0, 0);
        if mean.is_finite() {
            self.means.push(mean);
        }
        if self.means.len() >= MAX_BLOCKS {
            self.means = pairs(&self.means);
            self.size += 1;
        }
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Returns the means of blocks of 2^`size` windows. `size` has to be at least [`size`](Self::size).
    pub(super) fn of_size(&self, size: u32) -> Vec<f64> {
        let mut means = self.means.clone();
        for _ in self.size..size {
            means = pairs(&means);
        }
        means
    }
}

/// Returns the mean of each pair of values. If the number of values is odd, the last value is left out.
fn pairs(means: &[f64]) -> Vec<f64> {
    means.chunks_exact(2).map(|pair| pair[0] / 2.0 + pair[1] / 2.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(values: impl IntoIterator<Item = f64>) -> Blocks {
        let mut blocks = Blocks::default();
        values.into_iter().for_each(|value| blocks.add(value));
        blocks
    }

    #[test]
    fn the_number_of_blocks_has_a_bound_and_their_means_are_those_of_the_windows() {
        let all = blocks((0..100_000).map(f64::from));
        assert!(all.means.len() < MAX_BLOCKS, "{}", all.means.len());
        let length = 1_u64 << all.size;
        assert!(length as usize * all.means.len() > 99_000);
        assert_eq!(all.means[0], (length - 1) as f64 / 2.0);
        assert_eq!(all.means[1] - all.means[0], length as f64);
        assert_eq!(blocks([1.0, f64::NAN, 2.0, f64::INFINITY]).means, [1.0, 2.0], "windows without a value");
        let few = blocks([1.0, 3.0, 5.0, 7.0, 100.0]);
        assert_eq!([few.of_size(1), few.of_size(2), few.of_size(40)], [vec![2.0, 6.0], vec![4.0], vec![]]);
    }

    #[test]
    fn blocks_of_a_file_are_checked() {
        let read = |text: &str| serde_json::from_str::<Blocks>(text).unwrap_err().to_string();
        assert!(read(r#"{"log2_windows": 41, "means": []}"#).contains("2^41"));
        let many = format!(r#"{{"log2_windows": 0, "means": [{}]}}"#, vec!["1"; 513].join(","));
        assert!(read(&many).contains("513 blocks"));
    }
}
