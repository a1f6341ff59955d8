// SPDX-License-Identifier: Apache-2.0

//! Files that a program reads as a whole, such as its configuration: their size and their depth have a bound, which is
//! checked first. Anybody may have written them, and a path may be that of a device without an end.

use std::{collections::HashMap, fs::File, io::Read, path::Path};

pub use saphyr::Yaml;
use saphyr::{Marker, ScanError, YamlLoader};
use saphyr_parser::{Event, Parser};

/// Reads a text of at most that many bytes.
pub fn read_text(path: &Path, max: u64) -> Result<String, String> {
    let mut bytes = vec![];
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > max {
        return Err(format!("it has more than {max} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| format!("it is no UTF-8: {error}"))
}

/// Reads the only document of a YAML text. Its scalars are as they are written: see [`text`].
pub fn read_yaml(text: &str) -> Result<Yaml<'_>, String> {
    check_depth(text)
        .map_err(|(place, why)| format!("{why} at line {} column {}", place.line(), place.col() + 1))?;
    let mut loader = YamlLoader::default();
    loader.early_parse(false);
    Parser::new_from_str(text).load(&mut loader, true).map_err(|error| error.to_string())?;
    if let Some(error) = loader.error() {
        return Err(error.to_string());
    }
    let mut documents: Vec<_> = loader.into_documents();
    match documents.len() {
        1 => Ok(documents.remove(0)),
        number => Err(format!("it has {number} documents, where one is expected")),
    }
}

/// Returns the value of a key in a mapping of [`read_yaml`].
pub fn value<'a>(mapping: &'a Yaml<'_>, key: &str) -> Option<&'a Yaml<'a>> {
    mapping.as_mapping()?.iter().find(|(name, _)| text(name) == Some(key)).map(|(_, value)| value)
}

/// Returns the text of a scalar of [`read_yaml`], which may also be a number: `2` and `"2"` are the same.
pub fn text<'a>(scalar: &'a Yaml<'_>) -> Option<&'a str> {
    match scalar {
        Yaml::Representation(text, ..) => Some(text),
        _ => None,
    }
}

/// How deep YAML may be nested. Readers call themselves for each level.
const MAX_DEPTH: usize = 32;

/// Errors if YAML is nested too deep, also by aliases, or if it is none; with the place.
pub(crate) fn check_depth(yaml: &str) -> Result<(), (Marker, String)> {
    let mut open: Vec<(usize, usize)> = vec![]; // the anchor of each open node, and the height of what is in it
    let mut heights: HashMap<usize, usize> = HashMap::new();
    for event in Parser::new_from_str(yaml) {
        let (event, span) = event.map_err(|error: ScanError| (*error.marker(), error.info().to_owned()))?;
        let height = match event {
            Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _) => {
                open.push((anchor, 0));
                0
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let (anchor, height) = open.pop().unwrap_or_default();
                heights.insert(anchor, height + 1);
                height + 1
            }
            Event::Alias(anchor) => heights.get(&anchor).copied().unwrap_or_default(),
            _ => 0,
        };
        if open.len() + height > MAX_DEPTH {
            return Err((span.start, format!("it is nested deeper than {MAX_DEPTH} levels")));
        }
        if let Some((_, highest)) = open.last_mut() {
            *highest = height.max(*highest);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_that_of_nodes_in_any_form() {
        // The parser itself has a limit for brackets.
        let is_too_deep = |why: &str| why.contains("deeper") || why.contains("recursion limit");
        let is_deep = |yaml: &str| check_depth(yaml).is_err_and(|(_, why)| is_too_deep(&why));
        let flow = |depth| "[".repeat(depth) + &"]".repeat(depth);
        let block = |depth| "- ".repeat(depth) + "x";
        let mappings = |depth| (0..depth).map(|level| " ".repeat(level) + "a:\n").collect::<String>();
        for depth in [5000, MAX_DEPTH + 1] {
            for yaml in [flow(depth), block(depth), mappings(depth), "[".repeat(depth)] {
                assert!(is_deep(&yaml), "{}", &yaml[..30]);
            }
        }
        for yaml in [flow(MAX_DEPTH), block(MAX_DEPTH), mappings(MAX_DEPTH), "a: ']]]' # [[[[".to_owned()] {
            assert_eq!(check_depth(&yaml), Ok(()), "{yaml}");
        }
        // Each alias is one level deeper than the one before.
        let aliases = |number: usize| {
            let anchors = (1..=number).map(|level| format!("a{level}: &a{level} [*a{}]\n", level - 1));
            format!("a0: &a0 []\n{}", anchors.collect::<String>())
        };
        assert!(is_deep(&aliases(MAX_DEPTH)) && !is_deep(&aliases(MAX_DEPTH - 2)));
    }
}
