// SPDX-License-Identifier: Apache-2.0

//! The values of conditions: numbers with units, ranges and tolerances.

use super::ConditionProblem;

/// What a value is compared with, in the unit of the quantity: a range with both ends, or one number twice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Expected {
    pub(super) lowest: f64,
    pub(super) highest: f64,
}

/// How many times and how many parts of a unit another one is. (Two numbers, because 1/1000 has no exact binary form.)
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

type Wrong<'a> = (&'a str, ConditionProblem);

impl Expected {
    /// Parses the value of a quantity with this name and unit. Errors with the wrong part of it.
    pub(super) fn parse<'a>(text: &'a str, name: &str, unit: &'static str) -> Result<Self, Wrong<'a>> {
        // Where a part is missing, the whole value is wrong.
        let whole = |(word, problem): Wrong<'a>| (if word.is_empty() { text } else { word }, problem);
        let number = |text: &'a str, unit_of: &'a str| number(text, unit_of, name, unit).map_err(whole);
        let tolerance = ["±", "+-"].iter().find_map(|sign| text.split_once(sign));
        let (lowest, highest) = if let Some((center, tolerance)) = tolerance {
            let (center, part) = (number(center, center)?, percentage(tolerance).map_err(whole)?);
            let width = center.abs() * part;
            (center - width, center + width)
        } else if let Some((start, end)) = text.split_once("..") {
            let range = (number(start, end)?, number(end, end)?);
            if !split(start).1.is_empty() && split(end).1.is_empty() {
                return Err((text, ConditionProblem::HalfUnit { range: text.into() }));
            }
            range
        } else {
            let value = number(text, text)?;
            (value, value)
        };
        if !(lowest.is_finite() && highest.is_finite()) {
            return Err((text, ConditionProblem::NoNumber { name: name.into(), value: text.into() }));
        }
        match lowest <= highest {
            true => Ok(Self { lowest, highest }),
            false => Err((text, ConditionProblem::EmptyRange { range: text.into() })),
        }
    }
}

/// Splits a number from its unit.
fn split(text: &str) -> (&str, &str) {
    text.split_at(text.rfind(|c: char| c.is_ascii_digit() || c == '.').map_or(text.len(), |last| last + 1))
}

/// Parses a number in its unit, by default the unit of `unit_of`. Returns it in the quantity's unit.
fn number<'a>(text: &'a str, unit_of: &'a str, name: &str, unit: &'static str) -> Result<f64, Wrong<'a>> {
    let (digits, of_its_own) = split(text);
    let no_number = || (text, ConditionProblem::NoNumber { name: name.into(), value: text.into() });
    let value = digits.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(no_number)?;
    let written = if of_its_own.is_empty() { split(unit_of).1 } else { of_its_own };
    if written.is_empty() {
        return Ok(value);
    }
    let (units, written_unit) = match unit {
        "ms" => (MILLISECONDS, Some(written)),
        "Hz" => (HERTZ, Some(written)),
        "bytes" => (BYTES, Some(written)),
        "bytes/s" => (BYTES, written.strip_suffix("/s")),
        _ => (&[][..], None),
    };
    let found = units.iter().find(|(name, ..)| Some(*name) == written_unit);
    let unknown =
        || (written, ConditionProblem::UnknownUnit { name: name.into(), unit: written.into(), own: unit });
    let (_, times, parts) = found.ok_or_else(unknown)?;
    Ok(value * times / parts)
}

/// Parses a percentage. Returns the part of 1.
fn percentage(text: &str) -> Result<f64, Wrong<'_>> {
    let part = text.strip_suffix('%').and_then(|number| number.parse().ok());
    match part.filter(|part: &f64| part.is_finite() && *part >= 0.0) {
        Some(part) => Ok(part / 100.0),
        None => Err((text, ConditionProblem::NoPercentage { tolerance: text.into() })),
    }
}

/// Returns the possible units of a quantity whose own unit is this one, for an error message.
pub(super) fn units(own: &str) -> String {
    let list = |units: &[Unit], suffix: &str| {
        let names: Vec<_> = units.iter().map(|(name, ..)| format!("{name}{suffix}")).collect();
        format!("it has to be one of {}", names.join(", "))
    };
    match own {
        "ms" => list(MILLISECONDS, ""),
        "Hz" => list(HERTZ, ""),
        "bytes" => list(BYTES, ""),
        "bytes/s" => list(BYTES, "/s"),
        _ => "a count has no unit".to_owned(),
    }
}
