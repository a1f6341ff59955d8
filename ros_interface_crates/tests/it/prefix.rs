// SPDX-License-Identifier: Apache-2.0
//! Temporary prefixes with interface packages, as installed by rosidl.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ros_interface_crates::{generate, Report, Search};
use serde_json::json;
use tempfile::TempDir;

/// A temporary prefix. Its path has a space and a non-ASCII character.
pub struct Prefix(TempDir);

/// A field: its name, the `type_id` in its type description, the nested type, and the C type in IDL.
pub type Field<'a> = (&'a str, u32, &'a str, &'a str);
pub const X: Field = ("x", 11, "", "double");
pub const Y: Field = ("y", 11, "", "double");

impl Prefix {
    pub fn new() -> Prefix {
        Prefix(tempfile::Builder::new().prefix("präfix of ").tempdir().unwrap())
    }

    /// Creates a prefix with the package `shapes`, which has one message `Point`.
    pub fn with_point(fields: &[Field]) -> Prefix {
        let prefix = Prefix::new();
        prefix.install("shapes", "Point", fields, "const uint64 MANY = 18446744073709551615;", &[]);
        prefix
    }

    /// Removes a package, but not its crate.
    pub fn uninstall(&self, package: &str) {
        fs::remove_dir_all(self.share().join(package)).unwrap();
        fs::remove_file(self.share().join("ament_index/resource_index/rosidl_interfaces").join(package))
            .unwrap();
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn share(&self) -> PathBuf {
        self.path().join("share")
    }

    pub fn crate_file(&self, package: &str, file: &str) -> PathBuf {
        self.share().join(package).join("rust").join(file)
    }

    pub fn read(&self, package: &str, file: &str) -> String {
        let path = self.crate_file(package, file);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Installs a package with one message. `others` are the hashes of the nested types.
    pub fn install(
        &self,
        package: &str,
        name: &str,
        fields: &[Field],
        constants: &str,
        others: &[(&str, &str)],
    ) {
        let type_name = format!("{package}/msg/{name}");
        let field = |(name, id, nested, _): &Field| {
            json!({ "name": name, "type": {
                "type_id": id, "capacity": 0, "string_capacity": 0, "nested_type_name": nested,
            } })
        };
        let hash = hash(fields);
        let hashes = [(&*type_name, &*hash)].into_iter().chain(others.iter().copied());
        let hashes = hashes.map(|(name, hash)| json!({ "type_name": name, "hash_string": hash }));
        let description = json!({
            "type_description_msg": {
                "type_description": { "type_name": type_name, "fields": fields.iter().map(field).collect::<Vec<_>>() },
                "referenced_type_descriptions": [],
            },
            "type_hashes": hashes.collect::<Vec<_>>(),
        });
        let members: String = fields.iter().map(|(name, _, _, ty)| format!("{ty} {name};")).collect();
        let idl = format!(
            "module {package} {{ module msg {{ module {name}_Constants {{ {constants} }};\n\
             @verbatim (language=\"comment\", text=\"A [point] in <space>.\")\nstruct {name} {{ {members} }}; }}; }};"
        );
        let index = format!("ament_index/resource_index/rosidl_interfaces/{package}");
        self.write(&index, &format!("msg/{name}.json\nmsg/{name}.idl\n"));
        self.write(&format!("{package}/package.xml"), "<package><version>1.2.3</version></package>");
        self.write(&format!("{package}/msg/{name}.json"), &description.to_string());
        self.write(&format!("{package}/msg/{name}.idl"), &idl);
    }

    /// Installs a crate as written by rosidl_generator_rs. Its `Point` has the field x.
    pub fn install_foreign_crate(&self) {
        let manifest = "[package]\nname = \"shapes\"\nversion = \"1.2.3\"\n\n[package.metadata.ros-env]\ninclude = true\n";
        self.write("shapes/rust/Cargo.toml", manifest);
        self.write(
            "shapes/rust/src/msg/rmw.rs",
            "// Corresponds to shapes__msg__Point\n#[repr(C)]\npub struct Point {\n\n    \
             // This member is not documented.\n    #[allow(missing_docs)]\n    pub x: f64,\n\n}\n\
             impl Point {\n\n    pub const MANY: u64 = 18446744073709551615;\n\n}\n",
        );
    }

    /// Writes a file below `share`.
    pub fn write(&self, path: &str, content: &str) {
        let path = self.share().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Generates the missing crates of `prefixes` into this prefix.
    pub fn generate(&self, prefixes: &[&Prefix]) -> Report {
        generate(&search(prefixes), self.path(), &mut |_, _, _| ()).unwrap()
    }
}

/// Returns a hash that depends on the fields.
pub fn hash(fields: &[Field]) -> String {
    let names: Vec<&str> = fields.iter().map(|(name, ..)| *name).collect();
    format!("RIHS01_{}", names.join("_"))
}

pub fn search(prefixes: &[&Prefix]) -> Search {
    Search::new(prefixes.iter().map(|prefix| prefix.path().to_owned()))
}
