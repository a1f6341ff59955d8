// SPDX-License-Identifier: Apache-2.0
//! Searches installed interface packages and their crates.

use std::{
    collections::{btree_map::Entry, BTreeMap, BTreeSet},
    env, fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use crate::{model::Package, read::RESOURCE_INDEX, Error};

/// The searched prefixes, in the order of AMENT_PREFIX_PATH, and the requested packages.
///
/// As in ROS 2 and ros-env, the first prefix with a package provides its definition, and the first prefix with a crate
/// of the package provides the crate.
#[derive(Debug, Clone, Default)]
pub struct Search {
    prefixes: Vec<PathBuf>,
    packages: Option<Vec<String>>,
}

impl Search {
    /// Searches these prefixes for all packages.
    pub fn new(prefixes: impl IntoIterator<Item = PathBuf>) -> Search {
        Search { prefixes: prefixes.into_iter().collect(), packages: None }
    }

    /// Searches the prefixes of AMENT_PREFIX_PATH for all packages.
    ///
    /// # Errors
    /// [`Error::NoPrefixes`] if the variable is unset or empty.
    pub fn from_env() -> Result<Search, Error> {
        let path = env::var_os("AMENT_PREFIX_PATH").unwrap_or_default();
        let search = Search::new(env::split_paths(&path).filter(|prefix| !prefix.as_os_str().is_empty()));
        if search.prefixes.is_empty() {
            return Err(Error::NoPrefixes);
        }
        Ok(search)
    }

    /// Restricts the search to these packages and their dependencies.
    pub fn only(self, packages: impl IntoIterator<Item = impl Into<String>>) -> Search {
        Search { packages: Some(packages.into_iter().map(Into::into).collect()), ..self }
    }

    pub(crate) fn is_restricted(&self) -> bool {
        self.packages.is_some()
    }

    /// Returns this search with `out` as the first prefix, unless the prefixes already contain `out`.
    pub(crate) fn with(&self, out: &Path) -> Search {
        let same = |prefix: &PathBuf| {
            prefix == out
                || matches!((fs::canonicalize(prefix), fs::canonicalize(out)), (Ok(a), Ok(b)) if a == b)
        };
        let mut search = self.clone();
        match search.prefixes.iter_mut().find(|prefix| same(prefix)) {
            Some(prefix) => *prefix = out.to_owned(),
            None => search.prefixes.insert(0, out.to_owned()),
        }
        search
    }

    pub(crate) fn position(&self, prefix: &Path) -> Option<usize> {
        self.prefixes.iter().position(|searched| searched == prefix)
    }

    /// Returns the prefix that provides the crate of `package`: the first prefix with
    /// `share/<package>/rust/Cargo.toml`.
    pub(crate) fn crate_prefix(&self, package: &str) -> Option<&Path> {
        let has_crate = |prefix: &&PathBuf| crate_directory(prefix, package).join("Cargo.toml").is_file();
        self.prefixes.iter().find(has_crate).map(PathBuf::as_path)
    }

    /// Returns the directories of crates whose package is in no prefix, by package; an empty map if only some packages
    /// are requested. Rust libraries with a `package.xml` are not interface packages, and are left out.
    pub(crate) fn left_over(&self, definitions: &Definitions) -> Result<BTreeMap<String, PathBuf>, Error> {
        let mut found = BTreeMap::new();
        for prefix in self.prefixes.iter().filter(|_| !self.is_restricted()) {
            for name in names_in(&prefix.join("share"))? {
                let manifest = Path::new("share").join(&name).join("package.xml");
                let has_manifest = |prefix: &PathBuf| prefix.join(&manifest).is_file();
                let directory = crate_directory(prefix, &name);
                if directory.join("Cargo.toml").is_file()
                    && !definitions.installed.contains_key(&name)
                    && !self.prefixes.iter().any(has_manifest)
                {
                    found.entry(name).or_insert(directory);
                }
            }
        }
        Ok(found)
    }

    /// Reads the definition of each package from the first prefix with the package.
    pub(crate) fn definitions(&self) -> Result<Definitions, Error> {
        let mut installed = BTreeMap::new();
        for prefix in &self.prefixes {
            for name in names_in(&prefix.join(RESOURCE_INDEX).join("rosidl_interfaces"))? {
                installed.entry(name).or_insert_with(|| prefix.clone());
            }
        }
        if installed.is_empty() {
            return Err(Error::NoPackages);
        }
        let mut read = BTreeMap::new();
        let mut wanted = self.packages.clone().unwrap_or_else(|| installed.keys().cloned().collect());
        while let Some(name) = wanted.pop() {
            let Some(prefix) = installed.get(&name) else {
                if self.packages.iter().flatten().any(|package| *package == name) {
                    return Err(Error::UnknownPackage(name));
                }
                continue; // a missing dependency is reported with the package that needs it
            };
            if let Entry::Vacant(entry) = read.entry(name) {
                let package = Package::read(prefix, entry.key());
                wanted.extend(package.iter().flat_map(Package::dependencies));
                entry.insert(package);
            }
        }
        Ok(Definitions { read, installed })
    }
}

/// The definitions and the prefixes of interface packages, by package name.
pub(crate) struct Definitions {
    /// The definitions of the requested packages, or the errors that occurred while the definitions were read.
    pub read: BTreeMap<String, Result<Package, Error>>,
    /// The prefixes of all packages.
    pub installed: BTreeMap<String, PathBuf>,
}

pub fn crate_directory(prefix: &Path, package: &str) -> PathBuf {
    prefix.join("share").join(package).join("rust")
}

/// Returns the names in a directory; an empty set if the path is not a directory.
fn names_in(directory: &Path) -> Result<BTreeSet<String>, Error> {
    let entries = match fs::read_dir(directory) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(BTreeSet::new())
        }
        entries => entries.map_err(Error::read(directory))?,
    };
    entries
        .map(|entry| Ok(entry.map_err(Error::read(directory))?.file_name().to_string_lossy().into_owned()))
        .collect()
}
