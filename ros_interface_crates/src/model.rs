// SPDX-License-Identifier: Apache-2.0
//! An interface package: its types, constants and comments.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

/// An interface package.
#[derive(Debug)]
pub struct Package {
    /// The name.
    pub name: String,
    /// The version in `package.xml`.
    pub version: String,
    /// The prefix in which the package is installed.
    pub prefix: PathBuf,
    /// The interfaces by namespace: `msg`, `srv`, `action`.
    pub namespaces: BTreeMap<String, Namespace>,
    /// The hashes of this package's types, and of the types that these types contain, by name (`package/msg/Name`).
    pub type_hashes: BTreeMap<String, String>,
    /// The hashes of the constants, by interface.
    pub constants: BTreeMap<String, String>,
    /// The SHA-256 hash of the version and of all files of the definition.
    pub definition: String,
    /// Notes on constants and comments that cannot be read.
    pub notes: Vec<String>,
}

/// The interfaces of one namespace, with all types that these interfaces imply.
#[derive(Debug, Default)]
pub struct Namespace {
    /// The messages, including the messages of services and actions.
    pub messages: Vec<Message>,
    /// The names of services.
    pub services: Vec<String>,
    /// The names of actions.
    pub actions: Vec<String>,
}

/// A message, or the request, response, goal, ... of a service or an action.
#[derive(Debug)]
pub struct Message {
    /// The name.
    pub name: String,
    /// The fields, in order.
    pub fields: Vec<Field>,
    /// The constants, in order.
    pub constants: Vec<Constant>,
    /// The lines of the comment in the definition.
    pub comment: Vec<String>,
}

/// A field of a message.
#[derive(Debug)]
pub struct Field {
    /// The name in the definition.
    pub name: String,
    /// The type.
    pub ty: Type,
    /// The lines of the comment in the definition.
    pub comment: Vec<String>,
}

/// A constant, with its Rust type and its value as a Rust literal.
#[derive(Debug, PartialEq)]
pub struct Constant {
    /// The name in the definition.
    pub name: String,
    /// The Rust type.
    pub ty: &'static str,
    /// The Rust literal.
    pub value: String,
    /// The lines of the comment in the definition.
    pub comment: Vec<String>,
}

/// The type of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// One element.
    One(Element),
    /// An array of this length.
    Array(Element, u64),
    /// A sequence of at most this length.
    BoundedSequence(Element, u64),
    /// A sequence of any length.
    Sequence(Element),
}

/// The type of the element, or of each element, of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Element {
    /// A primitive, by its name in Rust.
    Primitive(&'static str),
    /// A string.
    String,
    /// A wide string.
    WString,
    /// A string of at most this length.
    BoundedString(u64),
    /// A wide string of at most this length.
    BoundedWString(u64),
    /// A message.
    Message {
        /// The package of the message.
        package: String,
        /// The namespace of the message: `msg`, `srv` or `action`.
        namespace: String,
        /// The name of the message.
        name: String,
    },
}

impl Package {
    /// Returns the hashes of the types that this package defines.
    pub fn own_type_hashes(&self) -> impl Iterator<Item = (&String, &String)> {
        self.type_hashes.iter().filter(|(name, _)| name.split('/').next() == Some(&self.name))
    }

    /// Returns the other packages whose types are used by this package's crate.
    pub fn dependencies(&self) -> BTreeSet<String> {
        let mut packages = BTreeSet::new();
        for namespace in self.namespaces.values() {
            for field in namespace.messages.iter().flat_map(|message| &message.fields) {
                if let Element::Message { package, .. } = field.ty.element() {
                    packages.insert(package.clone());
                }
            }
            if !namespace.actions.is_empty() {
                // The trait `Action` uses these packages, even if no field does.
                packages.extend(
                    ["action_msgs", "builtin_interfaces", "unique_identifier_msgs"].map(String::from),
                );
            }
        }
        packages.remove(&self.name);
        packages
    }
}

impl Type {
    /// Returns the type of the elements.
    pub fn element(&self) -> &Element {
        let (Type::One(element)
        | Type::Array(element, _)
        | Type::BoundedSequence(element, _)
        | Type::Sequence(element)) = self;
        element
    }
}
