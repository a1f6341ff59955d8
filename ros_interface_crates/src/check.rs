// SPDX-License-Identifier: Apache-2.0
//! Compares crates with the definitions of their packages.

use std::path::PathBuf;

use crate::{
    foreign,
    model::Package,
    record::Record,
    search::{crate_directory, Definitions, Search},
    Error, Problem,
};

/// The result of [`check()`].
#[derive(Debug, Default)]
pub struct Checked {
    /// The number of checked packages.
    pub packages: usize,
    /// The problems, by package.
    pub problems: Vec<(String, Problem)>,
}

/// Checks that every interface package has a crate that fits its definition, and that every crate has a package.
///
/// The definition is read from the first prefix with the package, and the crate from the first prefix with a crate.
///
/// # Errors
/// Errors if prefixes cannot be read, or have none of the packages.
pub fn check(search: &Search) -> Result<Checked, Error> {
    let definitions = search.definitions()?;
    let mut checked = Checked { packages: definitions.read.len(), problems: vec![] };
    for (name, package) in &definitions.read {
        let Ok(package) = package else { continue }; // the error is reported below
        let problem = match Crate::find(search, package) {
            Crate::Missing => Some(Problem::Missing),
            Crate::Current { .. } => needs(search, &definitions, package),
            Crate::Differs { path, difference, is_ours } => {
                let definition = package.prefix.clone();
                Some(if is_ours {
                    Problem::Stale { path, definition, difference }
                } else {
                    Problem::Differs { path, definition, difference }
                })
            }
        };
        let problems = problem.into_iter().chain(built_with_other(&definitions, package));
        checked.problems.extend(problems.map(|problem| (name.clone(), problem)));
    }
    for (name, path) in search.left_over(&definitions)? {
        let is_ours = Record::read(&path).is_some();
        checked.problems.push((name, Problem::LeftOver { path, is_ours }));
    }
    for (name, package) in definitions.read {
        checked.problems.extend(package.err().map(|error| (name, error.into())));
    }
    Ok(checked)
}

/// Returns a problem if a dependency of the package is not installed and has no crate.
fn needs(search: &Search, definitions: &Definitions, package: &Package) -> Option<Problem> {
    let is_missing =
        |name: &String| !definitions.installed.contains_key(name) && search.crate_prefix(name).is_none();
    package.dependencies().into_iter().find(is_missing).map(Problem::Needs)
}

/// The crate that is used for a package.
pub(crate) enum Crate {
    Missing,
    Current { path: PathBuf, record: Option<Record> },
    Differs { path: PathBuf, difference: String, is_ours: bool },
}

impl Crate {
    pub fn find(search: &Search, package: &Package) -> Crate {
        let Some(prefix) = search.crate_prefix(&package.name) else { return Crate::Missing };
        let path = crate_directory(prefix, &package.name);
        let record = Record::read(&path);
        let difference = match &record {
            Some(record) => record.difference(package),
            None => foreign::difference(&path, package),
        };
        match difference {
            Some(difference) => Crate::Differs { path, difference, is_ours: record.is_some() },
            None => Crate::Current { path, record },
        }
    }
}

/// Returns a problem if the definition of a type of another package has changed since `package` was built.
///
/// The crate would contain the new layout of this type, but the package's C libraries contain the old layout.
pub(crate) fn built_with_other(definitions: &Definitions, package: &Package) -> Option<Problem> {
    package.type_hashes.iter().find_map(|(type_name, hash)| {
        let dependency = type_name.split('/').next().filter(|name| *name != package.name)?;
        let definition = definitions.read.get(dependency)?.as_ref().ok()?;
        definition.type_hashes.get(type_name).filter(|now| *now != hash)?;
        Some(Problem::BuiltWithOther { type_name: type_name.clone(), definition: definition.prefix.clone() })
    })
}
