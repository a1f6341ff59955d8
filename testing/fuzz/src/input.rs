// SPDX-License-Identifier: Apache-2.0

//! Converts the bytes of a fuzzer's input to values.
//!
//! Values are read one after the other. So if the fuzzer changes some bytes, few values change, and a person can write
//! a seed. After the last byte, all values are read from zeros.

/// The bytes that are not read yet.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let (taken, rest) = self.0.split_at(N.min(self.0.len()));
        bytes[..taken.len()].copy_from_slice(taken);
        self.0 = rest;
        bytes
    }

    pub fn u8(&mut self) -> u8 {
        self.bytes::<1>()[0]
    }

    /// Returns a number below `limit`. `limit` must be from 1 to 256.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::from(self.u8()) % limit
    }

    pub fn bool(&mut self) -> bool {
        self.u8() % 2 == 1
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    pub fn i32(&mut self) -> i32 {
        i32::from_le_bytes(self.bytes())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }

    pub fn i64(&mut self) -> i64 {
        i64::from_le_bytes(self.bytes())
    }

    /// Returns a time in nanoseconds: any value, a value near `other`, or a special value.
    pub fn time(&mut self, other: i64) -> i64 {
        match self.below(8) {
            0 => self.i64(),
            1 => [0, 1, -1, i64::MIN, i64::MAX, i64::MAX - 1][self.below(6)],
            2 => other.wrapping_sub(i64::from(self.u32())),
            3 => other,
            4 => other.wrapping_add(i64::from(self.u32()) * 1_000_000),
            _ => other.wrapping_add(i64::from(self.u32())),
        }
    }

    /// Returns a number: any value, a value of a usual magnitude, or a special value.
    pub fn f64(&mut self) -> f64 {
        match self.below(4) {
            0 => f64::from_bits(self.u64()),
            1 => {
                let [nan, inf, max, least] = [f64::NAN, f64::INFINITY, f64::MAX, f64::MIN_POSITIVE];
                [nan, inf, -inf, max, -max, least, 0.0, -0.0, u64::MAX as f64, 5e-324][self.below(10)]
            }
            2 => f64::from(self.i32()) / 1000.0,
            _ => f64::from(self.u8()),
        }
    }

    /// Returns a text of up to 600 characters, some or all of which can be in [`HOSTILE`], or returns a short text that
    /// is repeated.
    pub fn text(&mut self) -> String {
        let form = self.u8();
        let length = match form % 8 {
            0 => usize::from(self.u16()) % 600,
            length => usize::from(length) - 1,
        };
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        match form / 64 {
            3 => taken.iter().filter_map(|byte| HOSTILE.chars().nth(usize::from(*byte) % 32)).collect(),
            2 => String::from_utf8_lossy(taken).repeat(usize::from(self.u16() % 600)),
            _ => String::from_utf8_lossy(taken).into_owned(),
        }
    }
}

/// Characters that control a terminal, change the order or lines of text, or have a meaning in YAML or JSON.
const HOSTILE: &str =
    "\0\u{7}\u{8}\t\n\r\u{1b}\u{7f}\u{85}\u{9b}\u{9d}\u{a0}\u{61c}\u{200b}\u{200f}\u{2028}\u{2029}\
                       \u{202a}\u{202e}\u{2066}\u{2069}\u{feff}\u{fffe}\u{1f600}\"'\\:#-~a";
