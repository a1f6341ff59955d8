// SPDX-License-Identifier: Apache-2.0
//! Reads and writes the record of a crate's definition: the file `definition.json` in the crate.
//!
//! A crate with this file was written by this generator. A crate without this file was written by another generator,
//! such as rosidl_generator_rs.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::{generator, model::Package};

/// The name of the file, which is in the same directory as Cargo.toml.
pub const FILE: &str = "definition.json";

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The result of [`generator()`] when the crate was written.
    pub generator: String,
    pub package: String,
    pub version: String,
    /// [`Package::definition`].
    pub definition: String,
    /// [`Package::own_type_hashes`].
    pub type_hashes: BTreeMap<String, String>,
    /// [`Package::constants`]. `None` in a record of an earlier generator.
    pub constants: Option<BTreeMap<String, String>>,
}

impl Record {
    /// Creates the record of a crate that is generated now.
    pub fn new(package: &Package) -> Record {
        let type_hashes = package.own_type_hashes().map(|(name, hash)| (name.clone(), hash.clone()));
        Record {
            generator: generator(),
            package: package.name.clone(),
            version: package.version.clone(),
            definition: package.definition.clone(),
            type_hashes: type_hashes.collect(),
            constants: Some(package.constants.clone()),
        }
    }

    /// Reads the record of a crate. `None` if the crate is from another generator.
    pub fn read(crate_directory: &Path) -> Option<Record> {
        let text = fs::read_to_string(crate_directory.join(FILE)).ok()?;
        let record: Record = serde_json::from_str(&text).ok()?;
        record.generator.starts_with(concat!(env!("CARGO_PKG_NAME"), " ")).then_some(record)
    }

    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).unwrap_or_default(); // cannot fail: all values are strings
        json.push('\n');
        json
    }

    /// Returns how the package differs from the recorded definition; `None` if they are equal.
    pub fn difference(&self, package: &Package) -> Option<String> {
        if self.definition == package.definition {
            return None;
        }
        let now: BTreeMap<_, _> = package.own_type_hashes().collect();
        let mut changed: Vec<&str> = now
            .iter()
            .filter(|(name, hash)| self.type_hashes.get(**name) != Some(**hash))
            .map(|(name, _)| name.as_str())
            .collect();
        changed.extend(self.type_hashes.keys().filter(|name| !now.contains_key(name)).map(String::as_str));
        // If a request, goal or similar type has changed, only its service or action is reported.
        changed.retain(|name| !changed_parent(name, &self.type_hashes, &now));
        Some(match &changed[..] {
            [] if self.version != package.version => {
                format!("it was generated from version {}, which is {} now", self.version, package.version)
            }
            [] => "constants or comments changed".to_owned(),
            types => format!("{} changed", types.join(", ")),
        })
    }
}

/// Returns whether a type belongs to a service or an action that changed.
fn changed_parent(name: &str, then: &BTreeMap<String, String>, now: &BTreeMap<&String, &String>) -> bool {
    let parents = name.match_indices('_').map(|(index, _)| &name[..index]);
    parents.into_iter().any(|parent| {
        let now = now.iter().find(|(name, _)| name.as_str() == parent).map(|(_, hash)| hash.as_str());
        then.get(parent).map(String::as_str) != now
    })
}
