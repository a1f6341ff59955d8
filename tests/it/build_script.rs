// SPDX-License-Identifier: Apache-2.0

//! The build script reports missing and changed interface packages, and the command that adds or renews each.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use ros_interface_crates::{generate, Search};

/// Runs the build script with these prefixes on AMENT_PREFIX_PATH. Returns its output to cargo behind `key=`.
fn printed(directory: &Path, prefixes: &[&Path], has_shim: bool, key: &str) -> Vec<String> {
    let script = directory.join("build-script");
    if !script.is_file() {
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.rs");
        let status = Command::new(rustc).args(["--edition=2021", "-o"]).args([&script, &source]).status();
        assert!(status.unwrap().success());
    }
    let mut command = Command::new(script);
    command
        .env_remove("AMENT_PREFIX_PATH")
        .env_remove("CARGO_FEATURE_USE_ROS_SHIM")
        .env("OUT_DIR", directory);
    if !prefixes.is_empty() {
        command.env("AMENT_PREFIX_PATH", env::join_paths(prefixes).unwrap());
    }
    if has_shim {
        command.env("CARGO_FEATURE_USE_ROS_SHIM", "1").env("ROS_DISTRO", "humble");
    }
    printed_by(&mut command, key)
}

fn printed_by(command: &mut Command, key: &str) -> Vec<String> {
    let output = command.output().unwrap();
    assert!(output.status.success());
    let output = String::from_utf8(output.stdout).unwrap();
    let key = format!("cargo::{key}=");
    output.lines().filter_map(|line| line.strip_prefix(&key)).map(str::to_owned).collect()
}

fn errors(directory: &Path, prefixes: &[&Path]) -> Vec<String> {
    printed(directory, prefixes, false, "error")
}

fn write(file: &Path) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, "").unwrap();
}

#[test]
fn a_missing_interface_package_or_crate_is_reported_with_the_command_that_adds_it() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let prefix = directory.join("prefix");
    let share = prefix.join("share");

    let [error] = &errors(directory, &[])[..] else { panic!("one error without ROS") };
    assert!(error.contains("source /opt/ros/"), "{error}");

    write(&share.join("statistics_msgs/package.xml"));
    for file in ["package.xml", "rust/Cargo.toml"] {
        write(&share.join("diagnostic_msgs").join(file));
    }
    let [no_crate, no_package] = &errors(directory, &[&prefix])[..] else { panic!("two errors") };
    assert!(
        no_crate.contains("statistics_msgs has no Rust crate")
            && no_crate.contains("ros_interface_crates generate --out")
            && no_crate.contains("cargo install")
            && !no_crate.contains("source"),
        "{no_crate}"
    );
    assert!(
        no_package.contains("topic_statistics_interfaces is not on AMENT_PREFIX_PATH")
            && no_package.contains("colcon build --packages-select topic_statistics_interfaces"),
        "{no_package}"
    );

    for package in ["statistics_msgs", "topic_statistics_interfaces"] {
        write(&share.join(package).join("rust/Cargo.toml"));
    }
    // As in a terminal with the prefix of the crates, that has not sourced the workspace of the package.
    let [no_package] = &errors(directory, &[&prefix])[..] else { panic!("one error") };
    assert!(no_package.contains("topic_statistics_interfaces is not on AMENT_PREFIX_PATH"), "{no_package}");

    write(&share.join("topic_statistics_interfaces/package.xml"));
    assert_eq!(errors(directory, &[&prefix]), [""; 0]);
}

#[test]
fn the_shim_needs_no_interface_package() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(printed(directory.path(), &[], true, "error"), [""; 0]);
}

/// rclrs 0.8 panics in that case.
#[test]
fn the_shim_needs_the_name_of_a_distribution() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(printed(directory.path(), &[], true, "error"), [""; 0], "this builds the script");
    let errors = |flags: &str| {
        let mut script = Command::new(directory.path().join("build-script"));
        script.env("CARGO_FEATURE_USE_ROS_SHIM", "1").env_remove("ROS_DISTRO");
        printed_by(script.env("CARGO_ENCODED_RUSTFLAGS", flags), "error")
    };
    let [error] = &errors("")[..] else { panic!("one error") };
    assert!(error.contains("`ROS_DISTRO=humble cargo check --features use_ros_shim`"), "{error}");
    assert_eq!(errors("--cfg\x1fros_distro=\"humble\""), [""; 0], "as docs.rs has it");
}

/// ros-env contains every crate, so the linker would miss the C libraries, minutes later.
#[test]
fn a_crate_whose_package_is_gone_is_reported_with_the_command_that_removes_it() {
    let directory = tempfile::tempdir().unwrap();
    let [crates, install] = ["crates", "install"].map(|name| directory.path().join(name));
    let ours = ["diagnostic_msgs", "statistics_msgs", "topic_statistics_interfaces"];
    let other = install.join("other_msgs"); // a package of a colcon workspace sees only what it depends on
    for package in ours.into_iter().chain(["other_msgs", "renamed_msgs"]) {
        write(&crates.join("share").join(package).join("rust/Cargo.toml"));
        write(&other.join("share").join(package).join("package.xml"));
    }
    assert_eq!(errors(directory.path(), &[&crates, &other]), [""; 0]);
    fs::remove_dir_all(other.join("share/renamed_msgs")).unwrap();
    let [error] = &errors(directory.path(), &[&crates, &other])[..] else { panic!("one error") };
    let remedy = format!("`ros_interface_crates generate --out {}`", crates.display());
    assert!(error.contains("The Rust crate of renamed_msgs in ") && error.contains(&remedy), "{error}");

    // colcon may build the package later.
    write(&directory.path().join("COLCON_IGNORE"));
    assert_eq!(errors(directory.path(), &[&crates, &other]), [""; 0]);
    assert_eq!(&printed(directory.path(), &[&crates, &other], false, "warning")[0], error);
    fs::remove_file(directory.path().join("COLCON_IGNORE")).unwrap();

    let sibling = install.join("renamed_msgs/share/renamed_msgs/package.xml");
    write(&sibling);
    assert_eq!(errors(directory.path(), &[&crates, &other]), [""; 0], "the workspace has it");
    fs::remove_file(sibling).unwrap();
    let library = other.join("lib/librenamed_msgs__rosidl_typesupport_c.so");
    write(&library);
    assert_eq!(errors(directory.path(), &[&crates, &other]), [""; 0], "it links");
}

#[test]
fn the_advice_begins_with_the_workspace_that_the_generator_has_to_see() {
    let directory = tempfile::tempdir().unwrap();
    let install = directory.path().join("install");
    let prefix = install.join("topic_statistics_interfaces"); // as colcon has it: a prefix for each package
    write(&prefix.join("share/topic_statistics_interfaces/package.xml"));
    let errors = errors(directory.path(), &[&prefix]);
    let advice = format!("`(source {}/setup.bash && ros_interface_crates generate", install.display());
    assert!(errors.iter().any(|error| error.contains(&advice)), "{errors:?}");
}

#[test]
fn the_linker_searches_each_prefix() {
    let directory = tempfile::tempdir().unwrap();
    let [overlay, underlay] = ["overlay", "underlay"].map(|prefix| directory.path().join(prefix));
    let searched = printed(directory.path(), &[&overlay, &underlay], false, "rustc-link-search");
    assert_eq!(searched, [&overlay, &underlay].map(|prefix| format!("native={}/lib", prefix.display())));
}

/// Packages as they are installed, in a prefix of the test's own, with their crates in another prefix.
struct Installed {
    directory: tempfile::TempDir,
    prefix: PathBuf,
    out: PathBuf,
}

impl Installed {
    fn with_std_msgs() -> Installed {
        Installed::with(&["builtin_interfaces", "std_msgs"])
    }

    fn with(packages: &[&str]) -> Installed {
        let directory = tempfile::tempdir().unwrap();
        let [prefix, out] = ["ros", "crates"].map(|name| directory.path().join(name));
        let found = env::var_os("AMENT_PREFIX_PATH").unwrap();
        for package in packages {
            let index = Path::new("share/ament_index/resource_index/rosidl_interfaces").join(package);
            let from = env::split_paths(&found).find(|prefix| prefix.join(&index).is_file()).unwrap();
            copy(&from.join(&index), &prefix.join(&index));
            let share = Path::new("share").join(package);
            copy(&from.join(&share).join("package.xml"), &prefix.join(&share).join("package.xml"));
            for namespace in ["msg", "srv", "action"].map(|namespace| share.join(namespace)) {
                for file in fs::read_dir(from.join(&namespace)).into_iter().flatten() {
                    let name = namespace.join(file.unwrap().file_name());
                    copy(&from.join(&name), &prefix.join(&name));
                }
            }
        }
        let installed = Installed { directory, prefix, out };
        installed.generate();
        installed
    }

    fn search(&self) -> Search {
        Search::new([self.out.clone(), self.prefix.clone()])
    }

    fn generate(&self) {
        let report = generate(&self.search(), &self.out, &mut |_, _, _| ()).unwrap();
        assert!(report.skipped.is_empty(), "{report}");
    }

    /// Returns the errors of changed packages; the packages of the library are missing in this prefix.
    fn errors(&self) -> Vec<String> {
        let mut errors = errors(self.directory.path(), &[&self.out, &self.prefix]);
        errors.retain(|error| !error.contains("is not on AMENT_PREFIX_PATH"));
        errors
    }

    /// Replaces a text in the `.idl` file of an interface, as a build of another definition does.
    fn edit(&self, interface: &str, from: &str, to: &str) {
        let file = self.prefix.join("share").join(interface).with_extension("idl");
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{interface} contains {from}");
        fs::write(file, text.replacen(from, to, 1)).unwrap();
    }

    /// Changes the hash of a type in the type descriptions of some interfaces, as a build with another definition does.
    fn change(&self, type_hash: &str, interfaces: &[&str]) {
        for interface in interfaces {
            let file = self.prefix.join("share").join(interface).with_extension("json");
            let text = fs::read_to_string(&file).unwrap();
            assert!(text.contains(type_hash), "{interface} contains the type");
            fs::write(file, text.replace(type_hash, &type_hash.replace("RIHS01_", "RIHS01_0"))).unwrap();
        }
    }

    fn hash(&self, interface: &str) -> String {
        let file = self.prefix.join("share").join(interface).with_extension("json");
        let description: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        let types = description["type_hashes"].as_array().unwrap();
        let own = types.iter().find(|own| own["type_name"] == interface).unwrap();
        own["hash_string"].as_str().unwrap().to_owned()
    }
}

#[test]
fn a_definition_that_changed_is_an_error_until_its_crate_is_generated_again() {
    let installed = Installed::with_std_msgs();
    assert_eq!(installed.errors(), [""; 0]);

    installed.change(&installed.hash("std_msgs/msg/Bool"), &["std_msgs/msg/Bool"]);
    let [error] = &installed.errors()[..] else { panic!("one error: {:?}", installed.errors()) };
    let command = format!("`ros_interface_crates generate --out {}`", installed.out.display());
    assert!(
        error.contains("std_msgs was generated from another definition of std_msgs/msg/Bool")
            && error.contains(&command),
        "{error}"
    );

    installed.generate();
    assert_eq!(installed.errors(), [""; 0]);
}

#[test]
fn a_constant_that_changed_is_an_error_and_a_comment_is_none() {
    let installed =
        Installed::with(&["action_msgs", "builtin_interfaces", "service_msgs", "unique_identifier_msgs"]);
    assert_eq!(installed.errors(), [""; 0]);
    installed.edit(
        "action_msgs/msg/GoalStatus",
        "The goal has been accepted",
        "const int8 OF_A_COMMENT = 1;",
    );
    assert_eq!(installed.errors(), [""; 0]);

    for (interface, from, to) in [
        ("action_msgs/msg/GoalStatus", "STATUS_ACCEPTED = 1;", "STATUS_ACCEPTED = 7;"),
        ("action_msgs/srv/CancelGoal", "const int8 ERROR_NONE = 0;", ""),
        (
            "action_msgs/msg/GoalInfo",
            "struct GoalInfo",
            "module GoalInfo_Constants { const int8 A = 1; };\n struct GoalInfo",
        ),
    ] {
        installed.edit(interface, from, to);
        let [error] = &installed.errors()[..] else { panic!("one error: {:?}", installed.errors()) };
        let expected = format!(
            "action_msgs was generated from another definition of {interface} than the installed one"
        );
        assert!(error.contains(&expected), "{error}");
        installed.generate();
        assert_eq!(installed.errors(), [""; 0]);
    }
}

#[test]
fn what_is_left_of_an_earlier_interface_is_no_error() {
    let installed =
        Installed::with(&["action_msgs", "builtin_interfaces", "service_msgs", "unique_identifier_msgs"]);
    let messages = installed.prefix.join("share/action_msgs/msg");
    copy(&messages.join("GoalStatus.idl"), &messages.join("Renamed.idl"));
    assert_eq!(installed.errors(), [""; 0]);
}

#[test]
fn a_record_of_an_earlier_generator_says_nothing_about_constants() {
    let installed =
        Installed::with(&["action_msgs", "builtin_interfaces", "service_msgs", "unique_identifier_msgs"]);
    let record = installed.out.join("share/action_msgs/rust/definition.json");
    let text = fs::read_to_string(&record).unwrap();
    let (before, _) = text.split_once(",\n  \"constants\"").unwrap();
    let before = before.replace("crates 0.", "crates 0.0.");
    fs::write(record, format!("{before}\n}}\n")).unwrap();
    assert_eq!(installed.errors(), [""; 0]);
    installed.generate();
    installed.edit("action_msgs/msg/GoalStatus", "STATUS_ACCEPTED = 1;", "STATUS_ACCEPTED = 7;");
    assert_eq!(installed.errors().len(), 1);
}

#[test]
fn the_generator_reads_constants_as_the_build_script_does() {
    let script = include_str!("../../build.rs");
    let generator =
        include_str!("../../ros_interface_crates/src/constants.rs").split("\n#[cfg(test)]").next().unwrap();
    let functions = generator.split_once("pub fn").unwrap().1;
    assert!(functions.len() > 1000 && script.contains(functions), "the functions are copies");
}

#[test]
fn a_package_that_was_built_with_another_definition_of_a_type_is_an_error_until_it_is_rebuilt() {
    let installed = Installed::with_std_msgs();
    // builtin_interfaces is rebuilt, with its crate; std_msgs is not, although its Header contains the type.
    let time = installed.hash("builtin_interfaces/msg/Time");
    installed.change(&time, &["builtin_interfaces/msg/Time"]);
    let only = installed.search().only(["builtin_interfaces"]);
    generate(&only, &installed.out, &mut |_, _, _| ()).unwrap();
    let [error] = &installed.errors()[..] else { panic!("one error: {:?}", installed.errors()) };
    let expected = "std_msgs was built with another definition of builtin_interfaces/msg/Time";
    assert!(error.contains(expected) && error.contains("rebuild std_msgs"), "{error}");

    // Users without it remove its crate: only a compiled crate is an error.
    assert!(
        error.contains(&format!("generate --out {}` removes its crate", installed.out.display())),
        "{error}"
    );
    let report = generate(&installed.search(), &installed.out, &mut |_, _, _| ()).unwrap();
    assert_eq!(report.skipped[0].0, "std_msgs");
    assert_eq!(installed.errors(), [""; 0]);

    installed.change(&time, &["std_msgs/msg/Header"]);
    installed.generate();
    assert_eq!(installed.errors(), [""; 0]);
}

#[test]
fn a_crate_without_a_record_is_that_of_the_package() {
    let installed = Installed::with_std_msgs();
    installed.change(&installed.hash("std_msgs/msg/Bool"), &["std_msgs/msg/Bool"]);
    fs::remove_file(installed.out.join("share/std_msgs/rust/definition.json")).unwrap();
    assert_eq!(installed.errors(), [""; 0], "rosidl_generator_rs writes no record");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
}
