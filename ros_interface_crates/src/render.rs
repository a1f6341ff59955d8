// SPDX-License-Identifier: Apache-2.0
//! Interface packages as Rust source.
//!
//! Every message is written twice. The *rmw* type has the layout of the C struct that rosidl_generator_c makes, and its
//! C functions make, copy and drop what it owns. The *idiomatic* type has `String` and `Vec` and converts from and
//! to it. ros-env includes the files as `<package>::<namespace>` and `<package>::<namespace>::rmw`, with the packages
//! that they depend on in scope; `lib.rs` does the same for use as a crate on its own. What is Rust's own is named by
//! its whole path: a message may be called `Default` or `Vec`.

mod message;
mod service;

use crate::{
    model::{Element, Namespace, Package, Type},
    record::{self, Record},
};

/// The files of a package's crate, by their paths in it.
pub fn files(package: &Package) -> Vec<(String, String)> {
    let mut files = vec![
        ("Cargo.toml".to_owned(), cargo_toml(package)),
        ("build.rs".to_owned(), BUILD_RS.to_owned()),
        ("src/lib.rs".to_owned(), lib_rs(package)),
        (record::FILE.to_owned(), Record::of(package).to_json()),
    ];
    for (name, namespace) in &package.namespaces {
        let scope = Scope { package: &package.name, namespace: name };
        files.push((format!("src/{name}.rs"), scope.idiomatic(namespace)));
        files.push((format!("src/{name}/rmw.rs"), scope.rmw(namespace)));
    }
    files
}

const BUILD_RS: &str = r#"fn main() {
    println!("cargo:rerun-if-env-changed=AMENT_PREFIX_PATH");
    for prefix in std::env::split_paths(&std::env::var_os("AMENT_PREFIX_PATH").unwrap_or_default()) {
        println!("cargo:rustc-link-search=native={}", prefix.join("lib").display());
    }
}
"#;

fn cargo_toml(package: &Package) -> String {
    let dependencies = package.dependencies();
    let versions: String = dependencies.iter().map(|name| format!("{name} = \"*\"\n")).collect();
    let features: String = dependencies.iter().map(|name| format!(", \"{name}/serde\"")).collect();
    let Package { name, version, .. } = package;
    format!(
        r#"[package]
name = "{name}"
version = "{version}"
edition = "2021"

[dependencies]
rosidl_runtime_rs = "0.7"
serde = {{ version = "1", optional = true, features = ["derive"] }}
serde-big-array = {{ version = "0.5.1", optional = true }}
{versions}
[features]
serde = ["dep:serde", "dep:serde-big-array", "rosidl_runtime_rs/serde"{features}]

[package.metadata.ros-env]
include = true
"#
    )
}

fn lib_rs(package: &Package) -> String {
    let mut text = "#![allow(missing_docs)]\n".to_owned();
    for namespace in package.namespaces.keys() {
        text += &format!(
            "\npub mod {namespace} {{\n    include!(\"{namespace}.rs\");\n    pub mod rmw {{\n        \
             include!(\"{namespace}/rmw.rs\");\n    }}\n}}\n"
        );
    }
    text
}

/// Rust's keywords, to which rosidl_generator_rs appends an underscore where a field or a constant has their name.
const KEYWORDS: [&str; 52] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "Self",
    "static", "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

/// The name of a field or a constant in Rust.
fn rust_name(name: &str) -> String {
    if KEYWORDS.contains(&name) {
        format!("{name}_")
    } else {
        name.to_owned()
    }
}

/// Which of the two types of a message is meant.
#[derive(Clone, Copy, PartialEq)]
enum Layer {
    Idiomatic,
    Rmw,
}

/// How a value is at hand that is converted.
#[derive(Clone, Copy, PartialEq)]
enum Access {
    Owned,
    Borrowed,
}

/// The module whose file is written.
struct Scope<'a> {
    package: &'a str,
    namespace: &'a str,
}

impl Scope<'_> {
    fn rmw(&self, namespace: &Namespace) -> String {
        let mut text = String::new();
        for message in &namespace.messages {
            text += &self.rmw_message(message);
        }
        for service in &namespace.services {
            text += &self.service(service, Layer::Rmw);
        }
        text
    }

    fn idiomatic(&self, namespace: &Namespace) -> String {
        let mut text = String::new();
        for message in &namespace.messages {
            text += &self.idiomatic_message(message);
        }
        for service in &namespace.services {
            text += &self.service(service, Layer::Idiomatic);
        }
        for action in &namespace.actions {
            text += &self.action(action);
        }
        text
    }

    /// `<package>__<namespace>__<name>`, as in the names of the C functions.
    fn c_name(&self, name: &str) -> String {
        format!("{}__{}__{name}", self.package, self.namespace)
    }

    fn ty(&self, ty: &Type, layer: Layer) -> String {
        let element = self.element(ty.element(), layer);
        match (ty, layer) {
            (Type::One(_), _) => element,
            (Type::Array(_, length), _) => format!("[{element}; {length}]"),
            // As in rosidl_generator_rs, a bounded sequence is one of rmw elements in both layers.
            (Type::BoundedSequence(element, bound), _) => {
                let element = self.element_from(element, Layer::Rmw, layer);
                format!("rosidl_runtime_rs::BoundedSequence<{element}, {bound}>")
            }
            (Type::Sequence(_), Layer::Idiomatic) => format!("std::vec::Vec<{element}>"),
            (Type::Sequence(_), Layer::Rmw) => format!("rosidl_runtime_rs::Sequence<{element}>"),
        }
    }

    fn element(&self, element: &Element, layer: Layer) -> String {
        self.element_from(element, layer, layer)
    }

    /// The type of an element in `layer`, as it is named in the file of the layer `file`.
    fn element_from(&self, element: &Element, layer: Layer, file: Layer) -> String {
        match (element, layer) {
            (Element::Primitive(name), _) => (*name).to_owned(),
            (Element::String | Element::WString, Layer::Idiomatic) => "std::string::String".to_owned(),
            (Element::String, Layer::Rmw) => "rosidl_runtime_rs::String".to_owned(),
            (Element::WString, Layer::Rmw) => "rosidl_runtime_rs::WString".to_owned(),
            (Element::BoundedString(bound), _) => format!("rosidl_runtime_rs::BoundedString<{bound}>"),
            (Element::BoundedWString(bound), _) => format!("rosidl_runtime_rs::BoundedWString<{bound}>"),
            (Element::Message { package, namespace, name }, _) => {
                let package = match file {
                    _ if package != self.package => package,
                    Layer::Idiomatic => "super",
                    Layer::Rmw => "super::super",
                };
                let rmw = if layer == Layer::Rmw { "rmw::" } else { "" };
                format!("{package}::{namespace}::{rmw}{name}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Field, Message};

    const SCOPE: Scope = Scope { package: "shapes", namespace: "msg" };

    fn message(package: &str) -> Element {
        Element::Message { package: package.into(), namespace: "msg".into(), name: "Point".into() }
    }

    fn types(ty: Type) -> [String; 2] {
        [SCOPE.ty(&ty, Layer::Idiomatic), SCOPE.ty(&ty, Layer::Rmw)]
    }

    #[test]
    fn messages_are_named_by_paths_that_hold_inside_ros_env() {
        assert_eq!(
            types(Type::One(message("shapes"))),
            ["super::msg::Point", "super::super::msg::rmw::Point"]
        );
        assert_eq!(types(Type::One(message("other"))), ["other::msg::Point", "other::msg::rmw::Point"]);
        assert_eq!(
            types(Type::BoundedSequence(message("shapes"), 4)),
            [
                "rosidl_runtime_rs::BoundedSequence<super::msg::rmw::Point, 4>",
                "rosidl_runtime_rs::BoundedSequence<super::super::msg::rmw::Point, 4>"
            ]
        );
    }

    #[test]
    fn strings_and_sequences_are_rusts_own_in_the_idiomatic_layer() {
        assert_eq!(
            types(Type::Sequence(Element::WString)),
            ["std::vec::Vec<std::string::String>", "rosidl_runtime_rs::Sequence<rosidl_runtime_rs::WString>"]
        );
        assert_eq!(
            types(Type::Array(Element::BoundedString(3), 2)),
            ["[rosidl_runtime_rs::BoundedString<3>; 2]", "[rosidl_runtime_rs::BoundedString<3>; 2]"]
        );
    }

    #[test]
    fn a_message_with_the_name_of_something_of_rusts_hides_nothing() {
        let field = Field { name: "items".into(), ty: Type::Sequence(Element::String), comment: vec![] };
        let message =
            Message { name: "Default".into(), fields: vec![field], constants: vec![], comment: vec![] };
        for text in [SCOPE.rmw_message(&message), SCOPE.idiomatic_message(&message)] {
            assert!(text.contains("impl std::default::Default for Default"), "{text}");
            assert!(!text.contains(" Vec<") && !text.contains("::Default::default())"), "{text}");
        }
    }

    #[test]
    fn a_field_that_is_a_keyword_gets_an_underscore() {
        let field = Field { name: "type".into(), ty: Type::One(Element::Primitive("u8")), comment: vec![] };
        assert_eq!(SCOPE.field(&field, Layer::Rmw), "    pub type_: u8,\n");
        assert_eq!(rust_name("kind"), "kind");
    }

    #[test]
    fn serde_gets_help_with_arrays_of_more_than_32_elements() {
        let field = |length| Field {
            name: "k".into(),
            ty: Type::Array(Element::Primitive("f64"), length),
            comment: vec![],
        };
        assert!(SCOPE.field(&field(33), Layer::Rmw).contains("serde_big_array::BigArray"));
        assert!(!SCOPE.field(&field(32), Layer::Rmw).contains("serde"));
    }
}
