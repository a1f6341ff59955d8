// SPDX-License-Identifier: Apache-2.0
//! Reads and writes the record of a crate's definition: the file `definition.json` in the crate.
//!
//! A crate with this file was written by this generator. A crate without this file was written by another generator,
//! such as rosidl_generator_rs.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::{generator, model::Package};

/// The name of the file, which is beside Cargo.toml.
pub const FILE: &str = "definition.json";

#[derive(Debug, Serialize, Deserialize)]
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
        let now: BTreeMap<&str, _> = package.own_type_hashes().map(|(name, hash)| (&**name, hash)).collect();
        let is_changed = |name: &str| self.type_hashes.get(name) != now.get(name).copied();
        let gone = self.type_hashes.keys().map(String::as_str).filter(|name| !now.contains_key(name));
        let mut changed: Vec<&str> =
            now.keys().copied().chain(gone).filter(|name| is_changed(name)).collect();
        // If a request, goal or similar type has changed, only its service or action is reported.
        changed.retain(|name| !name.match_indices('_').any(|(index, _)| is_changed(&name[..index])));
        Some(match &changed[..] {
            [] if self.version != package.version => {
                format!("it was generated from version {}, which is {} now", self.version, package.version)
            }
            [] => "constants or comments changed".to_owned(),
            types => format!("{} changed", types.join(", ")),
        })
    }
}
