// SPDX-License-Identifier: Apache-2.0

//! Readers for files that a program reads as a whole, such as its configuration. The size and the nesting depth of a
//! file are limited, because the file may come from an untrusted author, and because the path may name an endless
//! device such as `/dev/zero`.

pub use saphyr::Yaml;
use saphyr::YamlLoader;
use saphyr_parser::Parser;
use topic_statistics_core::input::check_depth;
pub use topic_statistics_core::input::read_text;

/// Reads a YAML text with exactly one document. Scalars are not converted to numbers: see [`text`].
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

/// Returns the value of a key in a mapping that [`read_yaml`] has read.
pub fn value<'a>(mapping: &'a Yaml<'_>, key: &str) -> Option<&'a Yaml<'a>> {
    mapping.as_mapping()?.iter().find(|(name, _)| text(name) == Some(key)).map(|(_, value)| value)
}

/// Returns the text of a scalar that [`read_yaml`] has read. `2` and `"2"` give the same text.
pub fn text<'a>(scalar: &'a Yaml<'_>) -> Option<&'a str> {
    match scalar {
        Yaml::Representation(text, ..) => Some(text),
        _ => None,
    }
}
