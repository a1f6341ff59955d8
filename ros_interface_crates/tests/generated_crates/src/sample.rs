// SPDX-License-Identifier: Apache-2.0
//! Sample values for every interface.

use rosidl_runtime_rs::{BoundedSequence, BoundedString, BoundedWString, Sequence, SequenceAlloc, WString};
use serde_json::Value;

/// The kind of values in a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Variant {
    /// All values differ from each other and from the default value. Bounded sequences and strings have the largest
    /// length that their bounds allow.
    Full,
    /// Strings and sequences are empty. Everything else is as in `Full`.
    Empty,
    /// The largest numbers.
    Highest,
    /// The smallest numbers.
    Lowest,
}

impl Variant {
    pub const ALL: [Variant; 4] = [Variant::Full, Variant::Empty, Variant::Highest, Variant::Lowest];
}

/// The source of sample values. The values are the same in every run.
pub struct Source {
    variant: Variant,
    /// The number of values returned so far.
    given: u32,
}

impl Source {
    pub fn new(variant: Variant) -> Self {
        Self { variant, given: 0 }
    }

    /// Returns a number that is never 0.
    fn next(&mut self) -> u32 {
        self.given += 1;
        self.given
    }

    /// Returns the number of elements that a sequence of at most `bound` elements gets.
    fn length(&self, bound: usize) -> usize {
        match self.variant {
            // Messages with millions of elements would take too long.
            Variant::Full => bound.min(1000),
            Variant::Empty => 0,
            Variant::Highest | Variant::Lowest => bound.min(1),
        }
    }

    /// Returns text with characters of one to four bytes in UTF-8, and of one and two words in UTF-16.
    fn text(&mut self) -> String {
        let number = self.next();
        match self.variant {
            Variant::Empty => String::new(),
            Variant::Highest => format!("{number} \"𝄞\" ").repeat(20),
            Variant::Full | Variant::Lowest => format!("{number} Grüße, 世界 𝄞\n"),
        }
    }

    /// Returns text of the length `bound`. `length` is the length of the character `é`, in bytes or in UTF-16 words.
    fn bounded_text(&mut self, bound: usize, length: usize) -> String {
        let bound = if self.variant == Variant::Empty { 0 } else { bound };
        "é".repeat(bound / length) + &"x".repeat(bound % length)
    }
}

/// A type with sample values: an interface or the type of a field.
pub trait Sample: PartialEq + Sized {
    fn sample(source: &mut Source) -> Self;

    /// Returns the value as JSON, in the form that `tests/echo.py` uses.
    fn to_json(&self) -> Value;

    /// Returns a sample that differs from `default`. If the variant allows only one value, returns this value.
    fn sample_unlike(default: &Self, source: &mut Source) -> Self {
        let other = (0..8).map(|_| Self::sample(source)).find(|sample| sample != default);
        other.unwrap_or_else(|| Self::sample(source))
    }
}

/// A message, request or similar structure.
pub trait Interface: Sample {
    /// `package/msg/Name`
    const NAME: &'static str;
}

macro_rules! sample {
    ($([$($generics:tt)*] $type:ty, |$source:ident| $sample:expr, |$value:ident| $json:expr;)*) => {$(
        impl<$($generics)*> Sample for $type {
            fn sample($source: &mut Source) -> Self {
                let _ = &$source;
                $sample
            }

            fn to_json(&self) -> Value {
                let $value = self;
                $json
            }
        }
    )*};
}

macro_rules! sample_number {
    ($lowest:expr, |$next:ident| $other:expr, $($number:ident)*) => {
        sample! {$(
            [] $number, |source| match source.variant {
                Variant::Highest => $number::MAX,
                Variant::Lowest => $lowest($number::MIN),
                Variant::Full | Variant::Empty => {
                    let $next = source.next();
                    $other as $number
                }
            }, |value| (*value).into();
        )*}
    };
}

// The multiplier is odd, so that consecutive values of `next` differ even in the smallest integer types.
sample_number!(|min| min, |next| u64::from(next).wrapping_mul(0x9E37_79B9_7F4A_7C15), i8 u8 i16 u16 i32 u32 i64 u64);
// For floating point numbers, the value of `Lowest` is the negative number that is closest to 0.
sample_number!(|_| -f32::from_bits(1), |next| next as f32 + 0.1, f32);
sample_number!(|_| -f64::from_bits(1), |next| f64::from(next) + 0.1, f64);

sample! {
    [] bool, |source| source.next() % 2 == 1, |value| (*value).into();
    [] String, |source| source.text(), |value| value.as_str().into();
    [] rosidl_runtime_rs::String, |source| source.text().as_str().into(), |value| value.to_string().into();
    [] WString, |source| source.text().as_str().into(), |value| value.to_string().into();
    [const N: usize] BoundedString<N>,
        |source| source.bounded_text(N, 2).as_str().try_into().expect("it fits"), |value| value.to_string().into();
    [const N: usize] BoundedWString<N>,
        |source| source.bounded_text(N, 1).as_str().try_into().expect("it fits"), |value| value.to_string().into();
    [T: Sample, const N: usize] [T; N],
        |source| std::array::from_fn(|_| T::sample(source)), |value| value.iter().map(T::to_json).collect();
    [T: Sample] Vec<T>,
        |source| (0..source.length(3)).map(|_| T::sample(source)).collect(),
        |value| value.iter().map(T::to_json).collect();
    [T: Sample + SequenceAlloc] Sequence<T>,
        |source| (0..source.length(3)).map(|_| T::sample(source)).collect(),
        |value| value.iter().map(T::to_json).collect();
    [T: Sample + SequenceAlloc, const N: usize] BoundedSequence<T, N>,
        |source| (0..source.length(N)).map(|_| T::sample(source)).collect(),
        |value| value.iter().map(T::to_json).collect();
}

include!(concat!(env!("OUT_DIR"), "/samples.rs"));
