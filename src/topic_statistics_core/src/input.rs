// SPDX-License-Identifier: Apache-2.0

//! Limits for files that are read as a whole: their size and their nesting depth. A file may come from an untrusted
//! author, and its path may name an endless device such as `/dev/zero`.

use std::{collections::HashMap, fs::File, io::Read, path::Path};

use saphyr_parser::{Event, Marker, Parser, ScanError};

/// Reads a text file. Returns an error if the file has more than `max` bytes.
pub fn read_text(path: &Path, max: u64) -> Result<String, String> {
    let mut bytes = vec![];
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > max {
        return Err(format!("it has more than {max} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| format!("it is no UTF-8: {error}"))
}

/// The maximum nesting depth of YAML. The depth is limited because the functions that read YAML are recursive.
const MAX_DEPTH: usize = 32;

/// Returns an error with the place and the reason if a text is not YAML, or is nested too deep. If the text has an
/// alias, the nesting inside the node that the alias refers to counts, too.
pub fn check_depth(yaml: &str) -> Result<(), (Marker, String)> {
    let mut open: Vec<(usize, usize)> = vec![]; // the anchor and the nesting depth so far of each open node
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
        // The YAML parser has its own limit for nested brackets, so its error is accepted, too.
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
        // The content of each anchor is one level deeper than the content of the previous anchor.
        let aliases = |number: usize| {
            let anchors = (1..=number).map(|level| format!("a{level}: &a{level} [*a{}]\n", level - 1));
            format!("a0: &a0 []\n{}", anchors.collect::<String>())
        };
        assert!(is_deep(&aliases(MAX_DEPTH)) && !is_deep(&aliases(MAX_DEPTH - 2)));
    }
}
