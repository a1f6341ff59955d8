// SPDX-License-Identifier: Apache-2.0
//! Decides which crates are written, kept and removed, and writes them.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use crate::{
    check::{built_with_other, Crate},
    generator,
    model::Package,
    record::Record,
    search::{crate_directory, Definitions, Search},
    write, Error, Problem,
};

/// The result of [`generate`] for each package.
#[derive(Debug, Default)]
pub struct Report {
    /// The packages whose crates were written.
    pub written: Vec<String>,
    /// The packages whose crates fit their definitions.
    pub kept: Vec<String>,
    /// The packages whose crates were removed from `out` because no prefix has the package any more.
    pub removed: Vec<String>,
    /// The packages for which no crate was written, with the reason. Also the crates of other generators whose package
    /// is in no prefix.
    pub skipped: Vec<(String, Problem)>,
    /// Notes on incomplete crates, for example on constants with an unreadable value.
    pub notes: Vec<(String, String)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} packages written", self.written.len())?;
        if !self.written.is_empty() {
            write!(f, ": {}", self.written.join(" "))?;
        }
        write!(f, "\n{} packages have their crates already", self.kept.len())?;
        for package in &self.removed {
            write!(f, "\nremoved {package}: no prefix on AMENT_PREFIX_PATH has this package")?;
        }
        for (package, note) in &self.notes {
            write!(f, "\nnote {package}: {note}")?;
        }
        for (package, problem) in &self.skipped {
            write!(f, "\nskipped {package}: {problem}")?;
        }
        Ok(())
    }
}

/// Writes a crate to `<out>/share/<package>/rust` for every interface package without a crate that fits its definition.
///
/// - `out` counts as the first prefix, unless the prefixes of the search contain `out`.
/// - A crate in any prefix that fits its definition is kept.
/// - A crate that does not fit is replaced if this generator wrote it to `out`. Otherwise the new crate is written to
///   `out`, which must come before the old crate's prefix. Crates of other generators are never overwritten.
/// - Unless the search is restricted to some packages, crates that this generator wrote to `out` are removed if no
///   prefix has the package any more, or if the package's C libraries contain another layout of a type.
///
/// Each crate is written atomically. `progress` receives the number of written crates, the number of all crates to
/// write, and the next package.
///
/// # Errors
/// Errors if prefixes cannot be read or written, have none of the packages, or have no type descriptions
/// ([`Error::NoTypeDescriptions`]: ROS 2 Humble). Errors about a single package are in [`Report::skipped`].
pub fn generate(
    search: &Search,
    out: &Path,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Report, Error> {
    let search = search.with(out);
    let definitions = search.definitions()?;
    refuse_without_descriptions(&search, &definitions)?;
    let _lock = write::lock(out)?;

    // ros-env includes all crates, so an unusable crate would also break builds of programs that do not use this crate.
    let is_removed = |package: &str, problem: &Problem| {
        let has_no_usable_crate = matches!(problem, Problem::BuiltWithOther { .. } | Problem::Needs(_));
        has_no_usable_crate && !search.is_restricted() && is_ours(out, package)
    };
    let mut report = Report::default();
    let mut ready = BTreeMap::new();
    for (name, package) in &definitions.read {
        let package = match package {
            Ok(package) => package,
            Err(error) if search.crate_prefix(name).is_some() => {
                report.kept.push(name.clone());
                report.notes.push((name.clone(), format!("its crate cannot be checked: {error}")));
                continue;
            }
            Err(_) => continue, // added to `report.skipped` below
        };
        let other = built_with_other(&definitions, package);
        let problem = match plan(&search, out, package) {
            Plan::Keep => {
                if !other.as_ref().is_some_and(|problem| is_removed(name, problem)) {
                    report.kept.push(name.clone());
                    report.notes.extend(other.map(|problem| (name.clone(), problem.to_string())));
                    continue;
                }
                other
            }
            Plan::Write => other,
            Plan::Skip(problem) => Some(problem),
        };
        match problem {
            Some(problem) => report.skipped.push((name.clone(), problem)),
            None => {
                ready.insert(name.as_str(), package);
            }
        }
    }
    drop_packages_without_dependencies(&definitions, &is_removed, &mut ready, &mut report);
    for (name, _) in report.skipped.iter().filter(|(name, problem)| is_removed(name, problem)) {
        write::remove_crate(out, name)?;
    }

    for (name, path) in search.left_over(&definitions)? {
        let is_ours = Record::read(&path).is_some();
        if is_ours && path == crate_directory(out, &name) {
            write::remove_crate(out, &name)?;
            write::remove_remains(out, &name)?;
            report.removed.push(name);
        } else {
            report.skipped.push((name, Problem::LeftOver { path, is_ours }));
        }
    }

    for (done, (name, package)) in ready.iter().enumerate() {
        progress(done, ready.len(), name);
        write::write_crate(out, package)?;
        report.written.push((*name).to_owned());
        report.notes.extend(package.notes.iter().map(|note| ((*name).to_owned(), note.clone())));
    }
    for name in &report.kept {
        if is_ours(out, name) {
            write::remove_remains(out, name)?;
            write::register(out, name)?;
            // The build script of ros-env watches only the crates that it found before. So to make the script find a
            // new crate, the other crates are touched.
            if !report.written.is_empty() {
                write::touch(out, name)?;
            }
        }
    }
    for (name, package) in definitions.read {
        if let Err(error) = package {
            if !report.kept.contains(&name) {
                report.skipped.push((name, error.into()));
            }
        }
    }
    Ok(report)
}

/// Returns whether this generator wrote the crate of a package to `out`.
fn is_ours(out: &Path, package: &str) -> bool {
    Record::read(&crate_directory(out, package)).is_some()
}

fn refuse_without_descriptions(search: &Search, definitions: &Definitions) -> Result<(), Error> {
    if definitions.read.values().any(Result::is_ok) {
        return Ok(());
    }
    for (name, package) in &definitions.read {
        if let (Err(Error::NoTypeDescription(path)), None) = (package, search.crate_prefix(name)) {
            return Err(Error::NoTypeDescriptions(path.clone()));
        }
    }
    Ok(())
}

enum Plan {
    Keep,
    Write,
    Skip(Problem),
}

fn plan(search: &Search, out: &Path, package: &Package) -> Plan {
    let place = crate_directory(out, &package.name);
    match Crate::find(search, package) {
        Crate::Current { path, record: Some(record) } if path == place && record.generator != generator() => {
            return Plan::Write
        }
        Crate::Current { .. } => return Plan::Keep,
        Crate::Missing => {}
        Crate::Differs { path, difference, .. } => {
            let position = |path: &Path| search.position(path.ancestors().nth(3)?);
            if position(&path) < position(&place) {
                return Plan::Skip(Problem::Shadowed { by: path, out: out.to_owned(), difference });
            }
        }
    }
    let is_empty = fs::read_dir(&place).map_or(true, |mut entries| entries.next().is_none());
    if is_empty || Record::read(&place).is_some() {
        Plan::Write
    } else {
        Plan::Skip(Problem::NotOurs { path: place, definition: package.prefix.clone() })
    }
}

/// Drops packages that need a package without a crate, because their crates would break the build of all other crates.
fn drop_packages_without_dependencies(
    definitions: &Definitions,
    is_removed: &dyn Fn(&str, &Problem) -> bool,
    ready: &mut BTreeMap<&str, &Package>,
    report: &mut Report,
) {
    loop {
        let is_gone = |name: &String| {
            report.skipped.iter().any(|(skipped, problem)| skipped == name && is_removed(name, problem))
        };
        // A new crate is not written if any dependency has no crate. A kept crate is removed only if a crate that it
        // needs is removed.
        let missing = |name: &str| {
            let mut dependencies = definitions.read.get(name)?.as_ref().ok()?.dependencies().into_iter();
            if ready.contains_key(name) {
                return dependencies.find(|name| !ready.contains_key(&**name) && !report.kept.contains(name));
            }
            let missing = dependencies.find(is_gone)?;
            is_removed(name, &Problem::Needs(missing.clone())).then_some(missing)
        };
        let mut names = ready.keys().copied().chain(report.kept.iter().map(String::as_str));
        let found = names.find_map(|name| Some((name.to_owned(), missing(name)?)));
        let Some((name, missing)) = found else { return };
        ready.remove(name.as_str());
        report.kept.retain(|kept| *kept != name);
        report.skipped.push((name, Problem::Needs(missing)));
    }
}
