// SPDX-License-Identifier: Apache-2.0

//! Reports missing and changed interface packages, and how to correct each problem. Without a report, a missing package
//! would cause unresolved imports, and a changed package would cause wrong layouts of structures.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use ros_idl_tokens::constants_hash;

/// The packages that the library uses, and how to install a missing package.
const PACKAGES: [(&str, &str); 3] = [
    (
        "diagnostic_msgs",
        "it is a package of every distribution: on Ubuntu `sudo apt install ros-$ROS_DISTRO-diagnostic-msgs`",
    ),
    (
        "statistics_msgs",
        "it is a package of every distribution: on Ubuntu `sudo apt install ros-$ROS_DISTRO-statistics-msgs`",
    ),
    (
        INTERFACES,
        "the feature `interfaces` needs it. Build without that feature, or clone \
         https://github.com/rclrs-topic-statistics/rclrs_topic_statistics into src/ of a colcon workspace, \
         `colcon build --packages-select topic_statistics_interfaces`, then `source install/setup.bash`",
    ),
];

const INTERFACES: &str = "topic_statistics_interfaces";

const INSTALL: &str =
    "`cargo install --locked --git https://github.com/rclrs-topic-statistics/rclrs_topic_statistics \
                       ros_interface_crates` installs the generator";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=AMENT_PREFIX_PATH");
    println!("cargo::rerun-if-env-changed=ROS_DISTRO");
    println!("cargo::rustc-check-cfg=cfg(ros_distro, values(any()))");
    // The published crate does not contain `src/testing.rs`, which only benchmarks and fuzz targets use.
    println!("cargo::rustc-check-cfg=cfg(has_testing)");
    if Path::new("src/testing.rs").exists() {
        println!("cargo::rustc-cfg=has_testing");
    }
    let distribution = env::var("ROS_DISTRO").ok();
    if let Some(distribution) = &distribution {
        println!("cargo::rustc-cfg=ros_distro=\"{}\"", distribution.escape_default());
    }
    if env::var_os("CARGO_FEATURE_USE_ROS_SHIM").is_some() {
        // Without the name of a distribution, rclrs 0.8 panics: "Missing --cfg ros_distro in RUSTFLAGS".
        let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
        if distribution.is_none() && !flags.contains("ros_distro") {
            println!(
                "cargo::error=The feature use_ros_shim needs the name of a distribution, because ROS_DISTRO is not set: \
                 `ROS_DISTRO=humble cargo check --features use_ros_shim`"
            );
        }
        return;
    }
    let prefixes = env::var_os("AMENT_PREFIX_PATH").unwrap_or_default();
    let prefixes: Vec<PathBuf> =
        env::split_paths(&prefixes).filter(|path| !path.as_os_str().is_empty()).collect();
    if prefixes.is_empty() {
        println!(
            "cargo::error=AMENT_PREFIX_PATH is not set, so there is no ROS 2: \
             `source /opt/ros/<distro>/setup.bash` first"
        );
        return;
    }
    // The build scripts of rclrs 0.8 and rosidl_runtime_rs 0.7 add the same paths as this script. But cargo does not
    // run those scripts again when AMENT_PREFIX_PATH gets a new prefix.
    for prefix in &prefixes {
        println!("cargo::rustc-link-search=native={}", prefix.join("lib").display());
    }
    for (package, remedy) in PACKAGES {
        if package == INTERFACES && env::var_os("CARGO_FEATURE_INTERFACES").is_none() {
            continue;
        }
        match has(&prefixes, package, "package.xml") {
            Some(_) if has(&prefixes, package, "rust/Cargo.toml").is_some() => {}
            Some(prefix) => println!(
                "cargo::error=The interface package {package} has no Rust crate on AMENT_PREFIX_PATH: {}, then \
                 `export AMENT_PREFIX_PATH=~/rust_interfaces:$AMENT_PREFIX_PATH` ({INSTALL})",
                generate(prefix, package, "~/rust_interfaces")
            ),
            // A missing package is an error even if its crate exists: the linker would not find the package's C
            // libraries.
            None => {
                println!("cargo::error=The interface package {package} is not on AMENT_PREFIX_PATH: {remedy}")
            }
        }
    }
    report_left_over(&prefixes);
    report_changes(&prefixes);
}

/// Reports Rust crates whose interface package was removed or renamed, or belongs to another workspace. ros-env
/// contains these crates. Without this report, the build would fail minutes later, because the linker would not find
/// the C libraries of these packages.
///
/// Under colcon, such a crate causes only a warning, and only if the workspace does not have the interface package. The
/// reason is that colcon passes to a build only the prefixes of its dependencies, and may build the interface package
/// later.
fn report_left_over(prefixes: &[PathBuf]) {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    // Only a build by colcon has this file above its `OUT_DIR`: colcon creates it in build/.
    let is_colcons = out.ancestors().any(|directory| directory.join("COLCON_IGNORE").is_file());
    let severity = if is_colcons { "warning" } else { "error" };
    for (package, (prefix, _)) in crates(prefixes) {
        let is_in_workspace = |prefix: &PathBuf| {
            let manifest = prefix.with_file_name(&package).join("share").join(&package).join("package.xml");
            prefix.parent().is_some() && manifest.is_file()
        };
        let library = format!("lib{package}__rosidl_typesupport_c.so");
        if PACKAGES.iter().any(|(own, _)| *own == package)
            || has(prefixes, &package, "package.xml").is_some()
            || prefixes
                .iter()
                .any(|prefix| is_in_workspace(prefix) || prefix.join("lib").join(&library).exists())
        {
            continue;
        }
        println!(
            "cargo::{severity}=The Rust crate of {package} in {} is left over: no prefix on AMENT_PREFIX_PATH has the \
             interface package, so programs do not link. Source the workspace of {package}, or, if there is none any \
             more, remove the crate: `ros_interface_crates generate --out {}` does ({INSTALL})",
            prefix.display(),
            prefix.display()
        );
    }
}

fn has<'a>(prefixes: &'a [PathBuf], package: &str, file: &str) -> Option<&'a Path> {
    prefixes
        .iter()
        .map(PathBuf::as_path)
        .find(|prefix| prefix.join("share").join(package).join(file).is_file())
}

/// Returns the command that generates the crate of a package to `out`.
///
/// The AMENT_PREFIX_PATH of a build can have prefixes that the user's terminal lacks, so the command first sources the
/// setup file that adds these prefixes. The command runs in a subshell, so that the AMENT_PREFIX_PATH of the terminal
/// does not change: cargo would compile everything again after a change.
fn generate(prefix: &Path, package: &str, out: &str) -> String {
    let command = format!("ros_interface_crates generate --out {out}");
    // A colcon workspace has a prefix for each package. The `setup.bash` that adds all prefixes is in their parent
    // directory.
    let setup = match prefix.parent() {
        Some(install) if prefix.ends_with(package) => install.join("setup.bash"),
        _ => prefix.join("setup.bash"),
    };
    if prefix.ends_with(package) || setup.is_file() {
        format!("`(source {} && {command})`", setup.display())
    } else {
        format!("`{command}`")
    }
}

/// Reports crates that were generated from interface definitions that differ from the installed definitions.
///
/// If the layout of a type differs from the layout in the C library, behaviour is undefined. If a constant differs,
/// this program and other programs use different values. Types and constants are compared by hash. The hash of a type
/// covers its layout. Comments and default values are not compared, because default values come from the C libraries.
/// Only crates that ros_interface_crates has generated record the hashes. Crates of rosidl_generator_rs need no check,
/// because they are generated together with the C libraries.
fn report_changes(prefixes: &[PathBuf]) {
    let records = records(prefixes);
    let hashes: BTreeMap<&str, &str> = records.values().flat_map(|(_, record)| type_hashes(record)).collect();
    let (mut changed, mut built_with_other) = (vec![], vec![]);
    for (package, (out, record)) in &records {
        let constants = recorded_constants(record);
        let Some(prefix) = has(prefixes, package, "package.xml") else { continue };
        for namespace in ["msg", "srv", "action"] {
            let directory = prefix.join("share").join(package).join(namespace);
            let Ok(files) = fs::read_dir(&directory) else { continue };
            // cargo watches the directory and not the files, because a package manager installs files with their old
            // modification times.
            println!("cargo::rerun-if-changed={}", directory.display());
            for file in files.flatten().map(|file| file.path()) {
                let text = || String::from_utf8_lossy(&fs::read(&file).unwrap_or_default()).into_owned();
                let Some(name) = file.file_stem().and_then(OsStr::to_str) else { continue };
                let name = format!("{package}/{namespace}/{name}");
                let extension = file.extension().unwrap_or_default();
                if let (true, Some(constants)) = (extension == "idl", &constants) {
                    // The package may no longer have this interface, although its installed file is still there. So
                    // only interfaces in the record are compared.
                    let recorded = constants.get(name.as_str()).copied();
                    if hashes.contains_key(name.as_str()) && recorded != constants_hash(&text()).as_deref() {
                        changed.push((package, name, out, prefix));
                    }
                }
                if extension != "json" {
                    continue;
                }
                // `type_hashes` returns the types of the interface itself, and all types that these types contain.
                for (name, installed) in type_hashes(&text()) {
                    if hashes.get(name).is_none_or(|recorded| *recorded == installed) {
                        continue;
                    }
                    if name.split('/').next() == Some(package) {
                        changed.push((package, name.to_owned(), out, prefix));
                    } else {
                        built_with_other.push((package, name.to_owned(), out, prefix));
                    }
                }
            }
        }
    }
    // One report per package is enough, because a package is generated as a whole.
    changed.dedup_by_key(|(package, ..)| *package);
    built_with_other.dedup_by_key(|(package, ..)| *package);
    if changed.is_empty() {
        for (package, name, out, prefix) in built_with_other {
            println!(
                "cargo::error=The interface package {package} was built with another definition of {name} than the \
                 installed one: rebuild {package}. If you do not use it: {} removes its crate ({INSTALL})",
                generate(prefix, package, &out.display().to_string())
            );
        }
    }
    for (package, name, out, prefix) in changed {
        println!(
            "cargo::error=The Rust crate of {package} was generated from another definition of {name} than the \
             installed one: {} ({INSTALL})",
            generate(prefix, package, &out.display().to_string())
        );
    }
}

/// Returns the prefixes and the records (`definition.json`) of crates that ros_interface_crates generated, by package.
fn records(prefixes: &[PathBuf]) -> BTreeMap<String, (&Path, String)> {
    let mut records = BTreeMap::new();
    for (package, (prefix, directory)) in crates(prefixes) {
        let Ok(record) = fs::read_to_string(directory.join("definition.json")) else { continue };
        // `ros_interface_crates generate` touches this file, even if the command only adds another package's crate.
        println!("cargo::rerun-if-changed={}", directory.join("Cargo.toml").display());
        records.insert(package, (prefix, record));
    }
    records
}

/// Returns the directories of the crates of packages, and the prefixes in which these crates lie, by package. If
/// several prefixes have a crate of the same package, returns the crate in the first of these prefixes, because ros-env
/// uses this crate.
fn crates(prefixes: &[PathBuf]) -> BTreeMap<String, (&Path, PathBuf)> {
    let mut crates = BTreeMap::new();
    for prefix in prefixes {
        let packages = fs::read_dir(prefix.join("share")).into_iter().flatten().flatten();
        for package in packages.filter_map(|entry| entry.file_name().into_string().ok()) {
            let directory = prefix.join("share").join(&package).join("rust");
            if directory.join("Cargo.toml").is_file() {
                crates.entry(package).or_insert((prefix.as_path(), directory));
            }
        }
    }
    crates
}

/// Returns the hashes of the constants in a record, by interface. Returns `None` for a record of an earlier version of
/// the generator, which did not write these hashes.
fn recorded_constants(record: &str) -> Option<BTreeMap<&str, &str>> {
    let (_, constants) = record.split_once("\"constants\":")?;
    let texts: Vec<_> = constants.split('"').skip(1).step_by(2).collect();
    Some(texts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

/// Returns the names and the hashes of types in a record or in the type description of an interface.
///
/// This function needs no JSON parser, because type names and hashes contain no character that JSON escapes.
fn type_hashes(json: &str) -> impl Iterator<Item = (&str, &str)> {
    let hashes = json.split_once("\"type_hashes\"").map_or("", |(_, hashes)| hashes);
    let mut name = "";
    hashes.split('"').skip(1).step_by(2).filter_map(move |text| {
        if text.starts_with("RIHS") {
            return Some((name, text));
        }
        if text.contains('/') {
            name = text;
        }
        None
    })
}
