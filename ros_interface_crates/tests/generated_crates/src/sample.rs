// SPDX-License-Identifier: Apache-2.0
//! Values for every interface, to send and to recognise.

use rosidl_runtime_rs::{BoundedSequence, BoundedString, BoundedWString, Sequence, SequenceAlloc, WString};
use serde_json::Value;

/// The kind of values in a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Variant {
    /// All different, none the default, bounded sequences and strings at their bounds.
    Full,
    /// Strings and sequences empty, everything else as in `Full`.
    Empty,
    /// The largest numbers.
    Highest,
    /// The smallest numbers.
    Lowest,
}

impl Variant {
    pub const ALL: [Variant; 4] = [Variant::Full, Variant::Empty, Variant::Highest, Variant::Lowest];
}

/// The source of values: the same ones in every run.
pub struct Source {
    variant: Variant,
    /// How many values it has given.
    given: u32,
}

impl Source {
    pub fn new(variant: Variant) -> Self {
        Self { variant, given: 0 }
    }

    /// A number that is never 0 and rarely repeats.
    fn next(&mut self) -> u32 {
        self.given += 1;
        self.given
    }

    /// How many elements a sequence gets that may have up to `bound`.
    fn length(&self, bound: usize) -> usize {
        match self.variant {
            // A bound in the millions would only take time.
            Variant::Full => bound.min(1000),
            Variant::Empty => 0,
            Variant::Highest | Variant::Lowest => bound.min(1),
        }
    }

    /// Text of characters of one to four bytes in UTF-8, one and two words in UTF-16.
    fn text(&mut self) -> String {
        let number = self.next();
        match self.variant {
            Variant::Empty => String::new(),
            Variant::Highest => format!("{number} \"𝄞\" ").repeat(20),
            Variant::Full | Variant::Lowest => format!("{number} Grüße, 世界 𝄞\n"),
        }
    }

    /// Text that fills `bound`, with characters of `size`.
    fn bounded_text(&mut self, bound: usize, size: impl Fn(char) -> usize) -> String {
        let (mut text, mut left) = (String::new(), if self.variant == Variant::Empty { 0 } else { bound });
        let characters = ['é', '世', '𝄞', 'x'];
        let first = self.next() as usize;
        for turn in first.. {
            let fitting = |c: &char| size(*c) <= left;
            let Some(c) = Some(characters[turn % 4]).filter(fitting).or(Some('x').filter(fitting)) else {
                break;
            };
            text.push(c);
            left -= size(c);
        }
        text
    }
}

/// A value of an interface or of its fields.
pub trait Sample: PartialEq + Sized {
    fn sample(source: &mut Source) -> Self;

    /// The value as `tests/echo.py` dumps it.
    fn to_json(&self) -> Value;

    /// A sample that is not `default`, if the type and the variant have another value at all.
    fn sample_unlike(default: &Self, source: &mut Source) -> Self {
        let other = (0..8).map(|_| Self::sample(source)).find(|sample| sample != default);
        other.unwrap_or_else(|| Self::sample(source))
    }
}

/// A structure, as opposed to the fields in it.
pub trait Interface: Sample {
    /// `package/msg/Name`
    const NAME: &'static str;

    /// Its constants, which Rust takes from the definition and Python too.
    fn constants() -> Vec<(&'static str, Value)>;
}

macro_rules! sample_integer {
    ($($integer:ty),*) => {$(
        impl Sample for $integer {
            fn sample(source: &mut Source) -> Self {
                match source.variant {
                    Variant::Highest => <$integer>::MAX,
                    Variant::Lowest => <$integer>::MIN,
                    // Odd multipliers, so that small integers differ from one to the next.
                    Variant::Full | Variant::Empty => {
                        (u64::from(source.next()).wrapping_mul(0x9E37_79B9_7F4A_7C15)) as $integer
                    }
                }
            }

            fn to_json(&self) -> Value {
                (*self).into()
            }
        }
    )*};
}
sample_integer!(i8, u8, i16, u16, i32, u32, i64, u64);

macro_rules! sample_float {
    ($($float:ty),*) => {$(
        impl Sample for $float {
            fn sample(source: &mut Source) -> Self {
                match source.variant {
                    Variant::Highest => <$float>::MAX,
                    // The negative number that is closest to 0.
                    Variant::Lowest => -<$float>::from_bits(1),
                    Variant::Full | Variant::Empty => source.next() as $float + 0.1,
                }
            }

            fn to_json(&self) -> Value {
                f64::from(*self).into()
            }
        }
    )*};
}
sample_float!(f32, f64);

impl Sample for bool {
    fn sample(source: &mut Source) -> Self {
        source.next() % 2 == 1
    }

    fn to_json(&self) -> Value {
        (*self).into()
    }
}

/// Of constants.
impl Sample for &'static str {
    fn sample(_: &mut Source) -> Self {
        ""
    }

    fn to_json(&self) -> Value {
        (*self).into()
    }
}

impl Sample for String {
    fn sample(source: &mut Source) -> Self {
        source.text()
    }

    fn to_json(&self) -> Value {
        self.as_str().into()
    }
}

impl Sample for rosidl_runtime_rs::String {
    fn sample(source: &mut Source) -> Self {
        source.text().as_str().into()
    }

    fn to_json(&self) -> Value {
        self.to_string().into()
    }
}

impl Sample for WString {
    fn sample(source: &mut Source) -> Self {
        source.text().as_str().into()
    }

    fn to_json(&self) -> Value {
        self.to_string().into()
    }
}

impl<const N: usize> Sample for BoundedString<N> {
    fn sample(source: &mut Source) -> Self {
        let text = source.bounded_text(N, char::len_utf8);
        text.as_str().try_into().expect("it was made to fit")
    }

    fn to_json(&self) -> Value {
        self.to_string().into()
    }
}

impl<const N: usize> Sample for BoundedWString<N> {
    fn sample(source: &mut Source) -> Self {
        let text = source.bounded_text(N, char::len_utf16);
        text.as_str().try_into().expect("it was made to fit")
    }

    fn to_json(&self) -> Value {
        self.to_string().into()
    }
}

impl<T: Sample, const N: usize> Sample for [T; N] {
    fn sample(source: &mut Source) -> Self {
        std::array::from_fn(|_| T::sample(source))
    }

    fn to_json(&self) -> Value {
        self.iter().map(T::to_json).collect()
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(source: &mut Source) -> Self {
        (0..source.length(3)).map(|_| T::sample(source)).collect()
    }

    fn to_json(&self) -> Value {
        self.iter().map(T::to_json).collect()
    }
}

impl<T: Sample + SequenceAlloc> Sample for Sequence<T> {
    fn sample(source: &mut Source) -> Self {
        (0..source.length(3)).map(|_| T::sample(source)).collect()
    }

    fn to_json(&self) -> Value {
        self.iter().map(T::to_json).collect()
    }
}

impl<T: Sample + SequenceAlloc, const N: usize> Sample for BoundedSequence<T, N> {
    fn sample(source: &mut Source) -> Self {
        (0..source.length(N)).map(|_| T::sample(source)).collect()
    }

    fn to_json(&self) -> Value {
        self.iter().map(T::to_json).collect()
    }
}

include!(concat!(env!("OUT_DIR"), "/samples.rs"));
