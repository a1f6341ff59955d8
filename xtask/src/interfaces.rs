//! Generates the Rust interface crates that ros-env reads, for the interface packages of any prefix.
//!
//! The generator that distributions have from Lyrical on, rosidl_generator_rs, is a part of a package's own build.
//! This one works on installed packages, from what they install:
//!
//! - the *structure* of every type from its type description (`<interface>.json`, since ROS 2 Iron), which is what
//!   the type's hash is computed from: it holds every bound, every type that a service or an action implies, and
//!   the interfaces that were defined in IDL only;
//! - its *constants*, which the type description leaves out, from the `.msg`, `.srv` or `.action` file, parsed by the
//!   crate ros2msg. (Its IDL parser reads all of them too, but takes `uint64 18446744073709551615` for 0.)
//!
//! What the crates have to look like is the contract of ros-env 0.3 (its build script), of rosidl_runtime_rs 0.7
//! (its traits) and of rclrs 0.8 (what it uses of them).

mod model;
mod render;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use model::Package;

/// The generator's own sources: what is generated depends on nothing else but the prefix.
pub const SOURCES: [&str; 3] = [
    include_str!("interfaces.rs"),
    include_str!("interfaces/model.rs"),
    include_str!("interfaces/render.rs"),
];

/// What became of the interface packages of a prefix.
#[derive(Debug, Default)]
pub struct Report {
    /// The packages whose crates were written.
    pub written: Vec<String>,
    /// The packages that have their crates already.
    pub kept: Vec<String>,
    /// The packages (or constants) that were left out, and why.
    pub skipped: Vec<(String, String)>,
}

/// Writes a crate to `<out>/share/<package>/rust` for every interface package of `prefixes` that has none.
///
/// The prefixes are searched in order, the first one that has a package provides it, as on AMENT_PREFIX_PATH. A crate
/// that exists in any of them, or in `out`, is left alone. `progress` hears how many of how many packages are done,
/// and which one is next. Crates appear whole or not at all.
pub fn generate(
    prefixes: &[PathBuf],
    out: &Path,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Report> {
    let mut report = Report::default();
    let mut packages = BTreeMap::new();
    let mut complete = BTreeSet::new();
    for prefix in prefixes.iter().map(PathBuf::as_path).chain([out]) {
        for name in names_in(&prefix.join("share/ament_index/resource_index/rosidl_interfaces"))? {
            packages.entry(name).or_insert_with(|| prefix.to_owned());
        }
        for name in names_in(&prefix.join("share"))? {
            if prefix.join("share").join(&name).join("rust/Cargo.toml").is_file() {
                complete.insert(name);
            }
        }
    }

    let mut ready = BTreeMap::new();
    for (name, prefix) in &packages {
        if complete.contains(name) {
            report.kept.push(name.clone());
            continue;
        }
        match Package::read(prefix, name) {
            Ok((package, notes)) => {
                report.skipped.extend(notes.into_iter().map(|note| (name.clone(), note)));
                ready.insert(name.clone(), package);
            }
            Err(error) => report.skipped.push((name.clone(), format!("{error:#}"))),
        }
    }
    drop_those_without_dependencies(&mut ready, &complete, &mut report);

    for (done, (name, package)) in ready.iter().enumerate() {
        progress(done, ready.len(), name);
        write_crate(&out.join("share").join(name), package)
            .with_context(|| format!("Cannot write the Rust crate of {name}"))?;
        report.written.push(name.clone());
    }
    Ok(report)
}

/// A crate whose dependencies have none would break the build of all the others.
fn drop_those_without_dependencies(
    ready: &mut BTreeMap<String, Package>,
    complete: &BTreeSet<String>,
    report: &mut Report,
) {
    loop {
        let missing = ready.iter().find_map(|(name, package)| {
            let mut dependencies = package.dependencies().into_iter();
            let missing = dependencies
                .find(|dependency| !ready.contains_key(dependency) && !complete.contains(dependency))?;
            Some((name.clone(), missing))
        });
        let Some((name, missing)) = missing else { return };
        ready.remove(&name);
        report.skipped.push((name, format!("it needs {missing}, which has no Rust crate")));
    }
}

/// Writes `<share>/rust`, first under another name.
fn write_crate(share: &Path, package: &Package) -> Result<()> {
    let temporary = share.join("rust.part");
    let place = share.join("rust"); // what is there has no manifest, so it is no crate
    for remains in [&temporary, &place] {
        match fs::remove_dir_all(remains) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    for (path, content) in render::files(package) {
        let path = temporary.join(path);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(path, content)?;
    }
    fs::rename(&temporary, &place)?;
    Ok(())
}

/// The names in a directory; none if it is no directory.
fn names_in(directory: &Path) -> Result<BTreeSet<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(BTreeSet::new())
        }
        entries => entries.with_context(|| format!("Cannot read {}", directory.display()))?,
    };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINT: &str = r#"{"type_description_msg": {"type_description": {"type_name": "shapes/msg/Point", "fields": [
        {"name": "x", "type": {"type_id": 11, "capacity": 0, "string_capacity": 0, "nested_type_name": ""}}]},
        "referenced_type_descriptions": []}}"#;

    fn write(path: &Path, content: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn prefix_with_point() -> tempfile::TempDir {
        let prefix = tempfile::tempdir().unwrap();
        let share = prefix.path().join("share");
        write(
            &share.join("ament_index/resource_index/rosidl_interfaces/shapes"),
            "msg/Point.json\nmsg/Point.msg\n",
        );
        write(&share.join("shapes/package.xml"), "<package><version>1.2.3</version></package>");
        write(&share.join("shapes/msg/Point.json"), POINT);
        write(&share.join("shapes/msg/Point.msg"), "float64 x\nuint64 MANY=18446744073709551615\n");
        prefix
    }

    #[test]
    fn a_package_without_a_crate_gets_one_and_the_second_run_leaves_it_alone() {
        let prefix = prefix_with_point();
        let out = tempfile::tempdir().unwrap();
        let generate = || generate(&[prefix.path().to_owned()], out.path(), &mut |_, _, _| ()).unwrap();

        assert_eq!(generate().written, ["shapes"]);
        let file = out.path().join("share/shapes/rust/src/msg/rmw.rs");
        let text = fs::read_to_string(&file).unwrap();
        assert!(
            text.contains("pub x: f64,") && text.contains("pub const MANY: u64 = 18446744073709551615;"),
            "{text}"
        );

        fs::write(&file, "// mine").unwrap();
        let second = generate();
        assert_eq!((second.written.len(), second.kept), (0, vec!["shapes".to_owned()]));
        assert_eq!(fs::read_to_string(&file).unwrap(), "// mine");
    }

    #[test]
    fn a_package_whose_dependency_is_missing_is_skipped_with_the_reason() {
        let prefix = prefix_with_point();
        let share = prefix.path().join("share");
        let path = POINT.replace("shapes/msg/Point", "paths/msg/Path").replace(
            r#""type_id": 11, "capacity": 0, "string_capacity": 0, "nested_type_name": """#,
            r#""type_id": 145, "capacity": 0, "string_capacity": 0, "nested_type_name": "gone/msg/Gone""#,
        );
        write(&share.join("ament_index/resource_index/rosidl_interfaces/paths"), "msg/Path.json\n");
        write(&share.join("paths/package.xml"), "<package><version>1.2.3</version></package>");
        write(&share.join("paths/msg/Path.json"), &path);
        let out = tempfile::tempdir().unwrap();

        let report = generate(&[prefix.path().to_owned()], out.path(), &mut |_, _, _| ()).unwrap();

        assert_eq!(report.written, ["shapes"]);
        assert_eq!(
            report.skipped,
            [("paths".to_owned(), "it needs gone, which has no Rust crate".to_owned())]
        );
    }
}
