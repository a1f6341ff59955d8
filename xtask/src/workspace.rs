// SPDX-License-Identifier: Apache-2.0

//! The packages of the workspace, as cargo lists them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{bail, Context, Result};
use serde::Deserialize;

/// The feature that replaces ROS by stubs, which cannot be linked.
const WITHOUT_ROS: &str = "use_ros_shim";

/// The part of `cargo metadata`'s output that matters here.
#[derive(Deserialize)]
pub struct Workspace {
    pub packages: Vec<Package>,
}

#[derive(Deserialize)]
pub struct Package {
    pub name: String,
    pub version: String,
    manifest_path: PathBuf,
    pub rust_version: Option<String>,
    /// The registries that it may be published to; None is any.
    publish: Option<Vec<String>>,
    features: BTreeMap<String, Vec<String>>,
    targets: Vec<Target>,
    #[serde(default)]
    metadata: serde_json::Value,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: PathBuf,
    /// Whether rustdoc documents it.
    doc: bool,
}

impl Workspace {
    /// Reads the workspace's members.
    pub fn read(project: &Path) -> Result<Workspace> {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(project).args(["metadata", "--no-deps", "--format-version", "1", "--quiet"]);
        let output = cargo.stderr(Stdio::inherit()).output().context("cargo cannot be started")?;
        if !output.status.success() {
            bail!("The workspace cannot be read; cargo says above why");
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

impl Package {
    /// Whether it may be published.
    pub fn is_public(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    /// Returns where its manifest is.
    pub fn directory(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }

    /// Returns its features, except the ones that stand in for ROS.
    pub fn features(&self) -> impl Iterator<Item = &str> {
        self.features.keys().map(String::as_str).filter(|feature| *feature != WITHOUT_ROS)
    }

    /// Returns its features as an argument to cargo, of this package alone.
    pub fn feature_list(&self) -> String {
        self.features().collect::<Vec<_>>().join(",")
    }

    /// Returns its features as an argument to cargo, beside those of other packages.
    pub fn qualified_features(&self) -> String {
        self.features().map(|feature| format!("{}/{feature}", self.name)).collect::<Vec<_>>().join(",")
    }

    /// Whether it has a library for everybody. One without documentation is for the programs of this workspace.
    pub fn has_library(&self) -> bool {
        let is_library = |kind: &String| ["lib", "rlib"].contains(&kind.as_str());
        self.targets.iter().any(|target| target.doc && target.kind.iter().any(is_library))
    }

    /// Returns a list of `[package.metadata.docs.rs]` in its manifest; empty if it has none.
    pub fn docs_rs(&self, key: &str) -> Vec<String> {
        let list = self.metadata["docs"]["rs"][key].as_array();
        let texts = list.into_iter().flatten().filter_map(serde_json::Value::as_str);
        texts.map(str::to_owned).collect()
    }

    /// Returns the root files of its libraries and programs.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        let is_code =
            |kind: &String| ["lib", "rlib", "cdylib", "proc-macro", "bin", "example"].contains(&&**kind);
        let code = self.targets.iter().filter(move |target| target.kind.iter().any(is_code));
        code.map(|target| &*target.src_path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::Value;

    use super::*;

    /// colcon installs a package's manifest without the workspace, and hands it to cargo in the next build of a
    /// terminal that has sourced `install/`.
    #[test]
    fn packages_that_colcon_installs_inherit_nothing_and_have_what_the_workspace_has() {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(project).args(["metadata", "--no-deps", "--format-version=1"]);
        let metadata: Value = serde_json::from_slice(&cargo.output().unwrap().stdout).unwrap();
        let packages = metadata["packages"].as_array().unwrap();
        let library = packages.iter().find(|package| package["name"] == "rclrs_topic_statistics").unwrap();
        let workspace = fs::read_to_string(project.join("Cargo.toml")).unwrap();
        let lints = workspace.split("[workspace.lints.").skip(1).flat_map(|section| {
            section.lines().take_while(|line| !line.is_empty()).filter(|line| line.ends_with("\"warn\""))
        });
        let lints: Vec<_> = lints.collect();
        assert!(lints.len() > 3, "{lints:?}");

        let mut installed = vec![];
        for package in packages {
            let path = Path::new(package["manifest_path"].as_str().unwrap());
            if path.with_file_name("Cargo.toml") == project.join("Cargo.toml")
                || !path.with_file_name("package.xml").is_file()
            {
                continue;
            }
            let name = package["name"].as_str().unwrap();
            let manifest = fs::read_to_string(path).unwrap();
            assert!(!manifest.contains("workspace = true"), "{name} inherits from the workspace");
            for key in ["version", "edition", "license", "repository"] {
                assert_eq!(package[key], library[key], "{key} of {name}");
            }
            // A program may need a newer compiler than the library does.
            let minor = |package: &Value| -> u32 {
                package["rust_version"].as_str().unwrap().split('.').nth(1).unwrap().parse().unwrap()
            };
            assert!(minor(package) >= minor(library), "rust-version of {name}");
            for lint in &lints {
                assert!(manifest.contains(lint), "{name} lacks the lint {lint}");
            }
            installed.push(name);
        }
        assert!(installed.len() > 3, "{installed:?}");

        let mut versions: BTreeMap<&str, (&Value, &Value)> = BTreeMap::new();
        for package in packages {
            let dependencies = package["dependencies"].as_array().unwrap().iter();
            for dependency in dependencies.filter(|dependency| dependency["path"].is_null()) {
                let name = dependency["name"].as_str().unwrap();
                let (version, dependent) =
                    versions.entry(name).or_insert((&dependency["req"], &package["name"]));
                assert_eq!(**version, dependency["req"], "{name}, of {dependent} and of {}", package["name"]);
            }
        }
    }

    #[test]
    fn packages_to_be_published_are_checked_with_their_features() {
        let package = |publish: &str, kinds: &str| {
            let text = format!(
                r#"{{"name": "p", "version": "0.1.0", "manifest_path": "/p/Cargo.toml", "rust_version": "1.85", "publish": {publish}, "features": {{"default": [], "use_ros_shim": [], "yaml": []}}, "targets": [{kinds}]}}"#
            );
            serde_json::from_str::<Package>(&text).unwrap()
        };
        assert!(package("null", "").is_public() && !package("[]", "").is_public());
        let target =
            |kind: &str, doc: bool| format!(r#"{{"kind": ["{kind}"], "src_path": "p", "doc": {doc}}}"#);
        let both = package(
            "null",
            &[("lib", true), ("bin", true), ("test", false)].map(|(kind, doc)| target(kind, doc)).join(","),
        );
        let program = package("null", &target("bin", true));
        assert_eq!(both.feature_list(), "default,yaml");
        assert_eq!(both.qualified_features(), "p/default,p/yaml");
        assert!(both.has_library() && !program.has_library());
        assert!(!package("null", &target("lib", false)).has_library());
    }
}
