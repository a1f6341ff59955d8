// SPDX-License-Identifier: Apache-2.0

//! The values of conditions: numbers with units, ranges and tolerances.

use super::{
    error::{quoted, Wrong},
    units,
};

/// The values that a measured value is compared with, in the unit of the quantity: the two ends of a range. For a
/// single number, both ends are equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Expected {
    pub(super) lowest: f64,
    pub(super) highest: f64,
}

impl Expected {
    /// Parses the value of a condition on the quantity with the given name and unit. Returns an error with the wrong
    /// part of the value.
    pub(super) fn parse<'a>(text: &'a str, name: &str, unit: &'static str) -> Result<Self, Wrong<'a>> {
        // If a part is missing, the error is about the whole value.
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
                let problem = format!(
                    "the end of the range {} needs a unit, too; a unit at the end alone is that of both",
                    quoted(text)
                );
                return Err((text, problem));
            }
            range
        } else {
            let value = number(text, text)?;
            (value, value)
        };
        if !(lowest.is_finite() && highest.is_finite()) {
            return Err((text, no_number(name, text)));
        }
        match lowest <= highest {
            true => Ok(Self { lowest, highest }),
            false => Err((text, format!("the range {} is empty: its start is above its end", quoted(text)))),
        }
    }
}

fn split(text: &str) -> (&str, &str) {
    text.split_at(text.rfind(|c: char| c.is_ascii_digit() || c == '.').map_or(text.len(), |last| last + 1))
}

/// Parses a number with a unit. If the number has no unit, the unit at the end of the text `unit_of` is used. Returns
/// the number in the quantity's unit.
fn number<'a>(text: &'a str, unit_of: &'a str, name: &str, unit: &'static str) -> Result<f64, Wrong<'a>> {
    let (digits, of_its_own) = split(text);
    let no_number = || (text, no_number(name, text));
    let value = digits.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(no_number)?;
    let written = if of_its_own.is_empty() { split(unit_of).1 } else { of_its_own };
    if written.is_empty() {
        return Ok(value);
    }
    let unknown = || {
        let (name, units) = (quoted(name), units::names(unit));
        (written, format!("{name} cannot have the unit {}; {units}", quoted(written)))
    };
    let (times, parts) = units::find(unit, written).ok_or_else(unknown)?;
    Ok(value * times / parts)
}

/// Parses a percentage. Returns the percentage divided by 100.
fn percentage(text: &str) -> Result<f64, Wrong<'_>> {
    let part = text.strip_suffix('%').and_then(|number| number.parse().ok());
    match part.filter(|part: &f64| part.is_finite() && *part >= 0.0) {
        Some(part) => Ok(part / 100.0),
        None => {
            Err((text, format!("a tolerance is a percentage from 0, such as ±10%, not {}", quoted(text))))
        }
    }
}

fn no_number(name: &str, value: &str) -> String {
    format!("{} needs a number, such as 90 or 0.5, not {}", quoted(name), quoted(value))
}
