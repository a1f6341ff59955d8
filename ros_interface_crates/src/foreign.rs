// SPDX-License-Identifier: Apache-2.0
//! Compares a crate of another generator with the definition of its package.
//!
//! A crate of another generator has no record of its definition, so the Rust code is compared. rosidl_generator_rs
//! 0.5.0 gives fields the same names and types in the same order as this generator. Only constants and the structures
//! of the rmw layer are compared. The layout of these structures must match the C libraries.

use std::{collections::BTreeMap, fs, path::Path};

use crate::{model::Package, render};

/// For each structure: the names and types of the fields, and the constants with their values.
type Outline = BTreeMap<String, (Vec<String>, Vec<String>)>;

/// Returns the first difference between a crate and its package, or the reason why ros-env does not include the crate;
/// `None` if the crate is usable.
pub fn difference(crate_directory: &Path, package: &Package) -> Option<String> {
    let manifest = fs::read_to_string(crate_directory.join("Cargo.toml")).unwrap_or_default();
    if !is_for_ros_env(&manifest) {
        return Some(
            "its Cargo.toml lacks `[package.metadata.ros-env] include = true`, without which ros-env leaves it out"
                .to_owned(),
        );
    }
    for (path, expected) in render::files(package) {
        if !path.ends_with("/rmw.rs") {
            continue;
        }
        let Ok(found) = fs::read_to_string(crate_directory.join(&path)) else {
            return Some(format!("{path} is missing"));
        };
        let (expected, found) = (outline(&expected), outline(&found));
        for (name, (fields, constants)) in &expected {
            let Some((found_fields, found_constants)) = found.get(name) else {
                return Some(format!("{name} is missing"));
            };
            if let Some(difference) = first_difference(fields, found_fields) {
                return Some(format!("{name} {difference}"));
            }
            // ros_interface_crates may leave out constants of a definition. So further constants in the other crate are
            // not reported, but missing constants are.
            if let Some(constant) = constants.iter().find(|constant| !found_constants.contains(constant)) {
                return Some(format!("{name} lacks the constant {constant}"));
            }
        }
    }
    None
}

/// Returns whether a manifest has the entry that ros-env requires. rosidl_generator_rs writes the entry from version
/// 0.4.12 on.
fn is_for_ros_env(manifest: &str) -> bool {
    let lines = manifest.lines().map(|line| line.split_whitespace().collect::<String>());
    let section = lines.skip_while(|line| line != "[package.metadata.ros-env]").skip(1);
    section.take_while(|line| !line.starts_with('[')).any(|line| line == "include=true")
}

fn first_difference(expected: &[String], found: &[String]) -> Option<String> {
    let same = expected.iter().zip(found).take_while(|(expected, found)| expected == found).count();
    match (expected.get(same), found.get(same)) {
        (Some(expected), Some(found)) => Some(format!("has the field {found} in place of {expected}")),
        (Some(expected), None) => Some(format!("lacks the field {expected}")),
        (None, found) => Some(format!("has the additional field {}", found?)),
    }
}

/// Finds `pub struct Name { ... }` and `impl Name { pub const ... }` in Rust source.
fn outline(source: &str) -> Outline {
    let mut outline = Outline::new();
    let is_code = |line: &&str| !line.starts_with("//") && !line.starts_with("#[");
    let code: Vec<&str> = source.lines().map(str::trim).filter(is_code).collect();
    let code = code.join(" ");
    let mut rest = code.as_str();
    while let Some(start) = rest.find('{') {
        let end = block_end(&rest[start..]).map_or(rest.len(), |end| start + end);
        let head: Vec<&str> = rest[..start].split_whitespace().collect();
        let body = rest.get(start + 1..end).unwrap_or_default();
        match head[..] {
            [.., "pub", "struct", name] => {
                outline.entry(name.to_owned()).or_default().0 =
                    split(body, ',').into_iter().filter_map(declaration).collect();
            }
            // Only `impl Name` is matched here, and not `impl Trait for Name`.
            [.., "impl", name] => {
                let constants = split(body, ';').into_iter().filter_map(constant);
                outline.entry(name.to_owned()).or_default().1.extend(constants);
            }
            _ => {}
        }
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    outline
}

/// Returns the end of the block at the start of `text`. Strings in constants may contain braces.
fn block_end(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0, false, false);
    text.char_indices().find_map(|(index, c)| {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            '{' if !in_string => depth += 1,
            '}' if !in_string => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(index)
    })
}

/// Splits a text at a separator, except inside brackets.
fn split(text: &str, separator: char) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, vec![]);
    for (index, c) in text.char_indices() {
        match c {
            '<' | '[' => depth += 1,
            '>' | ']' => depth -= 1,
            c if c == separator && depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Converts `pub name: type` to `name: type`, with this generator's names of types.
fn declaration(text: &str) -> Option<String> {
    let (name, ty) = text.trim().strip_prefix("pub ")?.split_once(':')?;
    let ty: String = ty.split_whitespace().collect();
    Some(format!("{}: {}", name.trim(), ty.replace("super::", "").replace("crate::", "")))
}

/// Converts `pub const NAME: type = value`. The value is kept only for integers and booleans, which all generators
/// write in the same way.
fn constant(text: &str) -> Option<String> {
    let (declared, value) = text.trim().strip_prefix("pub const ")?.split_once('=')?;
    let (name, ty) = declared.split_once(':')?;
    let (name, ty, value) = (name.trim(), ty.trim(), value.trim());
    let is_exact = ty == "bool" || ty.starts_with(['i', 'u']);
    Some(if is_exact { format!("{name}: {ty} = {value}") } else { format!("{name}: {ty}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_generators_styles_have_the_same_outline() {
        let ours = "/// `p/msg/M`\n#[repr(C)]\npub struct M {\n    /// pub struct X {\n    pub k: [f64; 36],\n    \
            pub b: rosidl_runtime_rs::BoundedSequence<super::super::msg::rmw::P, 4>,\n}\n\nimpl M {\n    \
            pub const S: &'static str = \"{\";\n    pub const MANY: u8 = 3;\n}\nimpl Default for M { fn f() {} }\n";
        let theirs = "pub struct M {\n    // This member is not documented.\n    #[allow(missing_docs)]\n    \
            #[cfg_attr(feature = \"serde\", serde(with = \"serde_big_array::BigArray\"))]\n    pub k: [f64; 36],\n\n    \
            pub b:\n        rosidl_runtime_rs::BoundedSequence<super::super::msg::rmw::P, 4>,\n\n}\n\n\
            impl M {\n\n    pub const S: &'static str = \"{\";\n\n    pub const MANY: u8 = 3;\n\n}\n";
        assert_eq!(outline(ours), outline(theirs));
        let (fields, constants) = &outline(ours)["M"];
        assert_eq!(fields, &["k: [f64;36]", "b: rosidl_runtime_rs::BoundedSequence<msg::rmw::P,4>"]);
        assert_eq!(constants, &["S: &'static str", "MANY: u8 = 3"]);
    }
}
