// SPDX-License-Identifier: Apache-2.0

//! The packages of the workspace, from `cargo metadata`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{ensure, Context, Result};
use serde::Deserialize;

/// The part of the output of `cargo metadata` that this program uses.
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
    /// The registries to which the package may be published; `None` means any registry.
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
    /// Whether rustdoc documents the target.
    doc: bool,
}

impl Workspace {
    pub fn read(project: &Path) -> Result<Workspace> {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(project).args(["metadata", "--no-deps", "--format-version", "1", "--quiet"]);
        let output = cargo.stderr(Stdio::inherit()).output().context("cargo cannot be started")?;
        ensure!(output.status.success(), "The workspace cannot be read; cargo says above why");
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

impl Package {
    pub fn is_public(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    pub fn directory(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }

    /// Returns the features of the package as an argument for cargo. `use_ros_shim` is left out, because it replaces
    /// ROS by stubs, which cannot be linked. `prefix` is `NAME/` if several packages are built. If a single package is
    /// built, cargo ignores features with this prefix.
    pub fn feature_list(&self, prefix: &str) -> String {
        let features = self.features.keys().filter(|feature| *feature != "use_ros_shim");
        features.map(|feature| format!("{prefix}{feature}")).collect::<Vec<_>>().join(",")
    }

    /// Returns whether the package has a library for users. A library without documentation is internal.
    pub fn has_library(&self) -> bool {
        let is_library = |kind: &String| ["lib", "rlib"].contains(&kind.as_str());
        self.targets.iter().any(|target| target.doc && target.kind.iter().any(is_library))
    }

    /// Returns a list from `[package.metadata.docs.rs]` in the manifest; the list is empty if it is missing.
    pub fn docs_rs(&self, key: &str) -> Vec<String> {
        let list = self.metadata["docs"]["rs"][key].as_array();
        let texts = list.into_iter().flatten().filter_map(serde_json::Value::as_str);
        texts.map(str::to_owned).collect()
    }

    /// Returns the root files of the libraries and programs.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        let is_code =
            |kind: &String| ["lib", "rlib", "cdylib", "proc-macro", "bin", "example"].contains(&&**kind);
        let code = self.targets.iter().filter(move |target| target.kind.iter().any(is_code));
        code.map(|target| &*target.src_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// colcon installs the manifest of a package without its workspace. If `install/` is sourced, the next build passes
    /// the installed manifest to cargo, so nothing in it may be inherited from the workspace.
    #[test]
    fn packages_that_colcon_installs_inherit_nothing() {
        let packages =
            Workspace::read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))).unwrap().packages;
        let is_installed = |package: &&Package| package.directory().join("package.xml").is_file();
        let installed: Vec<_> = packages.iter().filter(is_installed).collect();
        assert!(installed.len() > 4);
        for package in &installed {
            let manifest = std::fs::read_to_string(&package.manifest_path).unwrap();
            let inherits = manifest.contains("workspace = true") && package.name != "rclrs_topic_statistics";
            assert!(!inherits && package.version == installed[0].version, "{}", package.name);
        }
    }
}
