// SPDX-License-Identifier: Apache-2.0
//! An interface package: its types, constants and comments. Names are as in the definition.

#![allow(missing_docs)] // these types are not public

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

#[derive(Debug)]
pub struct Package {
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
    pub services: Vec<String>,
    pub actions: Vec<String>,
}

/// A message, or the request, response, goal, ... of a service or an action.
#[derive(Debug)]
pub struct Message {
    pub name: String,
    pub fields: Vec<Field>,
    pub constants: Vec<Constant>,
    /// The lines of the comment in the definition.
    pub comment: Vec<String>,
}

/// A field of a message.
#[derive(Debug)]
pub struct Field {
    pub name: String,
    pub ty: Type,
    /// The lines of the comment in the definition.
    pub comment: Vec<String>,
}

/// A constant, with its Rust type and its value as a Rust literal.
#[derive(Debug, PartialEq)]
pub struct Constant {
    pub name: String,
    pub ty: &'static str,
    pub value: String,
    /// The lines of the comment in the definition.
    pub comment: Vec<String>,
}

/// The type of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    One(Element),
    /// An array of this length.
    Array(Element, u64),
    /// A sequence of at most this length.
    BoundedSequence(Element, u64),
    Sequence(Element),
}

/// The type of the element, or of each element, of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Element {
    /// A primitive, by its name in Rust.
    Primitive(&'static str),
    String,
    WString,
    /// A string of at most this length.
    BoundedString(u64),
    BoundedWString(u64),
    Message {
        package: String,
        namespace: String,
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
            let fields = namespace.messages.iter().flat_map(|message| &message.fields);
            packages.extend(fields.filter_map(|field| match field.ty.element() {
                Element::Message { package, .. } => Some(package.clone()),
                _ => None,
            }));
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
    pub fn element(&self) -> &Element {
        let (Type::One(element)
        | Type::Array(element, _)
        | Type::BoundedSequence(element, _)
        | Type::Sequence(element)) = self;
        element
    }
}
