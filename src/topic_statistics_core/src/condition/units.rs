// SPDX-License-Identifier: Apache-2.0

//! The units that a value can be written in.

/// A unit: its name, and two numbers. To convert a value of this unit into the quantity's default unit, multiply it by
/// the first number, and divide it by the second number. (There are two numbers, because 1/1000 has no exact binary
/// form.)
type Unit = (&'static str, f64, f64);

const MILLISECONDS: &[Unit] = &[
    ("ns", 1.0, 1e6),
    ("us", 1.0, 1e3),
    ("µs", 1.0, 1e3),
    ("μs", 1.0, 1e3), // the Greek letter
    ("ms", 1.0, 1.0),
    ("s", 1e3, 1.0),
    ("min", 6e4, 1.0),
];
const HERTZ: &[Unit] = &[("Hz", 1.0, 1.0), ("kHz", 1e3, 1.0)];
const BYTES: &[Unit] = &[
    ("B", 1.0, 1.0),
    ("kB", 1e3, 1.0),
    ("MB", 1e6, 1.0),
    ("GB", 1e9, 1.0),
    ("KiB", 1024.0, 1.0),
    ("MiB", 1_048_576.0, 1.0),
    ("GiB", 1_073_741_824.0, 1.0),
];
const PERCENT: &[Unit] = &[("%", 1.0, 1.0)];

/// Returns the two numbers that convert a value in the unit `written` into a quantity's default unit `own`: multiply
/// the value by the first number, and divide it by the second number. `None` if the quantity cannot have the written
/// unit.
pub(super) fn find(own: &str, written: &str) -> Option<(f64, f64)> {
    let (units, suffix) = units_of(own);
    let written = written.strip_suffix(suffix)?;
    units.iter().find(|(name, ..)| *name == written).map(|(_, times, parts)| (*times, *parts))
}

/// Returns the possible units of a quantity with the default unit `own`, for an error message.
pub(super) fn names(own: &str) -> String {
    match units_of(own) {
        ([], _) => "a count has no unit".to_owned(),
        (units, suffix) => {
            let names: Vec<_> = units.iter().map(|(name, ..)| format!("{name}{suffix}")).collect();
            format!("it has to be one of {}", names.join(", "))
        }
    }
}

/// Returns whether a word is a unit of some quantity.
pub(super) fn is_unit(word: &str) -> bool {
    ["ms", "Hz", "bytes", "bytes/s", "%"].into_iter().any(|own| find(own, word).is_some())
}

/// Returns the units of a quantity, and the suffix that follows each unit.
fn units_of(own: &str) -> (&'static [Unit], &'static str) {
    match own {
        "ms" => (MILLISECONDS, ""),
        "Hz" => (HERTZ, ""),
        "bytes" => (BYTES, ""),
        "bytes/s" => (BYTES, "/s"),
        "%" => (PERCENT, ""),
        _ => (&[], ""),
    }
}
