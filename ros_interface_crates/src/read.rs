// SPDX-License-Identifier: Apache-2.0
//! Reads installed interface packages from a prefix.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

use ros_idl_tokens::constants_hash;
use sha2::{Digest, Sha256};

use crate::{
    description::{FieldDescription, TypeDescription, TypeDescriptionFile, TypeDescriptions, TypeHash},
    idl,
    model::{Field, Message, Package},
    names::{is_name, is_type_name},
    Error,
};

/// The directory in which a prefix lists its packages.
pub const RESOURCE_INDEX: &str = "share/ament_index/resource_index";

impl Package {
    /// Reads a package from its prefix.
    pub fn read(prefix: &Path, name: &str) -> Result<Package, Error> {
        let share = prefix.join("share").join(name);
        let index = prefix.join(RESOURCE_INDEX).join("rosidl_interfaces").join(name);
        let listed = fs::read_to_string(&index).map_err(Error::read(&index))?;
        // The index lists several files for an interface. The common path of these files, without the extension,
        // identifies the interface.
        let interfaces: BTreeSet<&str> = listed
            .lines()
            .filter_map(|line| line.trim().rsplit_once('.'))
            .filter(|(_, extension)| EXTENSIONS.contains(extension))
            .map(|(interface, _)| interface)
            .collect();

        let manifest = share.join("package.xml");
        let mut package =
            Package::new(prefix, name, &fs::read_to_string(&manifest).map_err(Error::read(&manifest))?)?;
        package.definition = definition_hash(&package.version, &share, &interfaces)?;
        for interface in interfaces {
            package.read_interface(&share, interface)?;
        }
        Ok(package)
    }

    /// Returns a package without interfaces, from the content of its `package.xml`.
    pub fn new(prefix: &Path, name: &str, manifest: &str) -> Result<Package, Error> {
        let path = prefix.join("share").join(name).join("package.xml");
        if !is_type_name(name) {
            return Err(Error::definition(&path, format!("{name:?} is not a valid package name")));
        }
        let version = version(manifest).map_err(|reason| Error::definition(&path, reason))?;
        Ok(Package {
            name: name.to_owned(),
            version,
            prefix: prefix.to_owned(),
            namespaces: BTreeMap::new(),
            type_hashes: BTreeMap::new(),
            constants: BTreeMap::new(),
            definition: String::new(),
            notes: vec![],
        })
    }

    fn read_interface(&mut self, share: &Path, interface: &str) -> Result<(), Error> {
        let json = share.join(format!("{interface}.json"));
        if !json.is_file() {
            return Err(Error::NoTypeDescription(json));
        }
        let description = fs::read_to_string(&json).map_err(Error::read(&json))?;
        let idl = share.join(format!("{interface}.idl"));
        let idl = fs::read(&idl).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        self.add_interface(share, interface, &description, idl)
    }

    /// Adds an interface from its type description, and from its `.idl` file if this file could be read.
    pub fn add_interface(
        &mut self,
        share: &Path,
        interface: &str,
        description: &str,
        idl: io::Result<String>,
    ) -> Result<(), Error> {
        let json = share.join(format!("{interface}.json"));
        let unexpected = |reason: &str| Error::definition(&json, reason);
        let (namespace, name) = interface.rsplit_once('/').unwrap_or(("", interface));
        let parts: &[&str] = match namespace {
            "msg" => &[""],
            "srv" => &["_Request", "_Response"],
            "action" => &[
                "_Goal",
                "_Result",
                "_Feedback",
                "_FeedbackMessage",
                "_SendGoal_Request",
                "_SendGoal_Response",
                "_GetResult_Request",
                "_GetResult_Response",
            ],
            _ => return Err(unexpected("the interface is not in a directory msg, srv or action")),
        };
        if !is_type_name(name) {
            return Err(unexpected(&format!("{name:?} is not a valid interface name")));
        }
        let file: TypeDescriptionFile =
            serde_json::from_str(description).map_err(|error| Error::definition(&json, error))?;
        let TypeDescriptions { type_description: own, referenced_type_descriptions: referenced } =
            file.type_description_msg;
        for TypeHash { type_name, hash_string } in file.type_hashes {
            if !type_name.split('/').all(is_name) {
                return Err(unexpected(&format!("it has a hash of {type_name:?}, which is not a type")));
            }
            if !is_name(&hash_string) {
                return Err(unexpected(&format!("{hash_string:?} is not a hash of {type_name}")));
            }
            self.type_hashes.insert(type_name, hash_string);
        }
        let mut structures = self.structures(share, interface, idl);
        let message = |suffix: &&str| {
            let name = format!("{name}{suffix}");
            let type_name = format!("{}/{namespace}/{name}", self.name);
            let description = match *suffix {
                "" => Some(&own),
                _ => referenced.iter().rev().find(|description| description.type_name == type_name),
            };
            let TypeDescription { fields, .. } =
                description.ok_or_else(|| unexpected(&format!("it lacks {type_name}")))?;
            let idl::Structure { constants, comment, mut field_comments } =
                structures.remove(&name).unwrap_or_default();
            let field = |description: &FieldDescription| {
                let name = description.name.clone();
                if !is_name(&name) {
                    return Err(unexpected(&format!(
                        "{type_name} has a field {name:?}, which is not a valid name"
                    )));
                }
                let wrong = |reason| unexpected(&format!("the field {name} of {type_name}: {reason}"));
                let ty = description.ty.to_type().map_err(wrong)?;
                let comment = field_comments.remove(&name).unwrap_or_default();
                Ok(Field { name, ty, comment })
            };
            let fields = fields.iter().map(field).collect::<Result<_, Error>>()?;
            Ok(Message { name, fields, constants, comment })
        };
        let messages = parts.iter().map(message).collect::<Result<Vec<_>, Error>>()?;
        let entry = self.namespaces.entry(namespace.to_owned()).or_default();
        entry.messages.extend(messages);
        match namespace {
            "srv" => entry.services.push(name.to_owned()),
            "action" => {
                entry.services.extend([format!("{name}_SendGoal"), format!("{name}_GetResult")]);
                entry.actions.push(name.to_owned());
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns constants and comments of an interface, by structure.
    fn structures(
        &mut self,
        share: &Path,
        interface: &str,
        idl: io::Result<String>,
    ) -> BTreeMap<String, idl::Structure> {
        if let Some(hash) = idl.as_deref().ok().and_then(constants_hash) {
            self.constants.insert(format!("{}/{interface}", self.name), hash);
        }
        match idl.map_err(|error| error.to_string()).and_then(|text| idl::read(&text)) {
            Ok(file) => {
                self.notes.extend(file.notes);
                file.structures
            }
            Err(reason) => {
                let path = share.join(format!("{interface}.idl"));
                self.notes.push(format!(
                    "the constants and comments of {interface} are left out: {} cannot be read: {reason}",
                    path.display()
                ));
                BTreeMap::new()
            }
        }
    }
}

/// The extensions of the files that define an interface.
const EXTENSIONS: [&str; 5] = ["json", "idl", "msg", "srv", "action"];

/// Returns a hash of all files from which a crate is generated, and of the version.
///
/// The type hashes in the `.json` files do not cover constants and comments, so the files are hashed.
fn definition_hash(version: &str, share: &Path, interfaces: &BTreeSet<&str>) -> Result<String, Error> {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    };
    add(version.as_bytes());
    for interface in interfaces {
        for extension in EXTENSIONS {
            let name = format!("{interface}.{extension}");
            let path = share.join(&name);
            if path.is_file() {
                add(name.as_bytes());
                add(&fs::read(&path).map_err(Error::read(&path))?);
            }
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn version(manifest: &str) -> Result<String, String> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document =
        roxmltree::Document::parse_with_options(manifest, options).map_err(|error| error.to_string())?;
    let node = document.root_element().children().find(|node| node.has_tag_name("version"));
    let version = node.and_then(|node| node.text()).ok_or("it has no version")?.trim();
    // The version is written into the crate's manifest and comments, so a version must not inject code.
    if version.contains(|c: char| !(c.is_ascii_alphanumeric() || ".-+".contains(c))) {
        return Err(format!("{version:?} is not a version"));
    }
    Ok(version.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a package with one message that has one field.
    fn package(
        name: &str,
        interface: &str,
        field: &str,
        nested: &str,
        hash: [&str; 2],
    ) -> Result<Package, Error> {
        let manifest = "<package><version>1.2.3</version></package>";
        let mut package = Package::new(Path::new("/opt"), name, manifest)?;
        let ty = json!({ "type_id": 1, "capacity": 0, "string_capacity": 0, "nested_type_name": nested });
        let description = json!({
            "type_description_msg": {
                "type_description": { "type_name": "any", "fields": [{ "name": field, "type": ty }] },
                "referenced_type_descriptions": [],
            },
            "type_hashes": [{ "type_name": hash[0], "hash_string": hash[1] }],
        });
        let idl = Ok("module p { module msg { struct Shape { a::msg::B c; }; }; };".to_owned());
        package.add_interface(Path::new("/share"), interface, &description.to_string(), idl)?;
        Ok(package)
    }

    #[test]
    fn invalid_names_are_refused_so_they_cannot_inject_code() {
        const HASH: [&str; 2] = ["shapes/msg/Shape", "RIHS01_0a"];
        let good = package("shapes", "msg/Shape", "type", "other/msg/Point", HASH).unwrap();
        assert_eq!(good.type_hashes["shapes/msg/Shape"], "RIHS01_0a");
        for (name, interface, field, nested, hash) in [
            ("a\"\nb", "msg/Shape", "x", "a/msg/B", HASH),
            ("type", "msg/Shape", "x", "a/msg/B", HASH),
            ("shapes", "msg/Shape { } fn f()", "x", "a/msg/B", HASH),
            ("shapes", "msg/Self", "x", "a/msg/B", HASH),
            ("shapes", "msg/Shape", "x: u8, y", "a/msg/B", HASH),
            ("shapes", "msg/Shape", "_", "a/msg/B", HASH),
            ("shapes", "msg/Shape", "1x", "a/msg/B", HASH),
            ("shapes", "msg/Shape", "", "a/msg/B", HASH),
            ("shapes", "msg/Shape", "x", "a/msg/B<{ loop {} }>", HASH),
            ("shapes", "msg/Shape", "x", "a//B", HASH),
            ("shapes", "msg/Shape", "x", "crate/msg/B", HASH),
            ("shapes", "msg/Shape", "x", "a/msg/B", ["shapes/m\u{7f}sg/Shape", "RIHS01_0a"]),
            ("shapes", "msg/Shape", "x", "a/msg/B", ["shapes/msg/Shape", "RIHS01_\u{1b}"]),
        ] {
            let error = package(name, interface, field, nested, hash).unwrap_err().to_string();
            assert!(!error.contains(|c: char| c.is_control() && c != '\n'), "{error:?}");
        }
    }

    #[test]
    fn a_version_cannot_inject_code() {
        let version =
            |version: &str| super::version(&format!("<package><version>{version}</version></package>"));
        assert_eq!(version(" 1.2.3-rc.1+5 "), Ok("1.2.3-rc.1+5".to_owned()));
        let error = Package::new(Path::new("/opt"), "p", "<package\u{1b}[2J>").unwrap_err().to_string();
        assert!(!error.contains(char::is_control) && error.contains("u{1b}"), "{error}");
        assert!(version("1.2.3\nfn f() {}").is_err() && version("1\"\nbuild = \"x").is_err());
    }
}
