// SPDX-License-Identifier: Apache-2.0

//! Parses the definitions of `.msg` files, as rosbag2 and MCAP store them: first the type itself, then the types that
//! it needs. Before each further type, there are a line of `=` and a line `MSG: package/Name`.

use super::layout::{add_common, without_msg, Definitions, Field, Kind, Shape};

/// Parses the definition of a type (`package/Name`) and of the types that it needs. `None` if the text is not valid.
pub(super) fn parse(name: &str, text: &str) -> Option<Definitions> {
    let mut definitions = Definitions::new();
    let (mut type_name, mut fields) = (name.to_owned(), vec![]);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("====") {
            let next = lines.next()?.strip_prefix("MSG:")?.trim();
            definitions.insert(std::mem::replace(&mut type_name, without_msg(next)), fields);
            fields = vec![];
            continue;
        }
        let package = type_name.split('/').next().unwrap_or_default();
        fields.extend(field_of(line, package)?);
    }
    definitions.insert(type_name, fields);
    add_common(&mut definitions);
    Some(definitions)
}

/// Parses a line in the definition of a type of `package`. The outer `None`: the line is not valid. The inner `None`: it
/// is a constant, a comment or empty.
fn field_of(line: &str, package: &str) -> Option<Option<Field>> {
    // A `#` can also be part of a default value or a constant, but only the type and the name before it are needed.
    let line = line.split('#').next().unwrap_or_default();
    let mut words = line.split_whitespace();
    let Some(kind) = words.next() else { return Some(None) };
    let name = words.next()?;
    let is_constant = name.contains('=') || words.next().is_some_and(|word| word.starts_with('='));
    if is_constant {
        return Some(None);
    }
    let (kind, shape) = match kind.strip_suffix(']') {
        None => (kind, Shape::One),
        Some(kind) => {
            let (kind, count) = kind.rsplit_once('[')?;
            let shape = match count {
                "" => Shape::Sequence,
                bound if bound.starts_with("<=") => Shape::Sequence,
                count => Shape::Array(count.parse().ok()?),
            };
            (kind, shape)
        }
    };
    // The bound of a string, such as `<=5` in `string<=5`, is ignored.
    let kind = kind.split("<=").next().unwrap_or_default();
    let kind = Kind::primitive(kind).unwrap_or_else(|| {
        Kind::Named(match kind {
            "Header" => "std_msgs/Header".to_owned(),
            kind if kind.contains('/') => without_msg(kind),
            kind => format!("{package}/{kind}"),
        })
    });
    Some(Some(Field { name: name.to_owned(), kind, shape }))
}
