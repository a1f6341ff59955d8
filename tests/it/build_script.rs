// SPDX-License-Identifier: Apache-2.0

//! The build script reports missing and changed interface packages, and the command that adds or renews each.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use ros_interface_crates::{generate, Search};

/// The build script, and a directory of its own.
struct Script(tempfile::TempDir);

impl Script {
    fn build() -> Script {
        let directory = tempfile::tempdir().unwrap();
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.rs");
        let script = directory.path().join("build-script");
        let status = Command::new(rustc).args(["--edition=2021", "-o"]).args([&script, &source]).status();
        assert!(status.unwrap().success());
        Script(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs it with these prefixes and variables. Returns its output to cargo behind `key=`.
    fn printed(&self, prefixes: &[&Path], variables: &[(&str, &str)], key: &str) -> Vec<String> {
        let mut command = Command::new(self.path("build-script"));
        let unset =
            ["AMENT_PREFIX_PATH", "CARGO_FEATURE_USE_ROS_SHIM", "ROS_DISTRO", "CARGO_ENCODED_RUSTFLAGS"];
        unset.iter().for_each(|variable| {
            command.env_remove(variable);
        });
        command.env("OUT_DIR", self.0.path()).envs(variables.iter().copied());
        if !prefixes.is_empty() {
            command.env("AMENT_PREFIX_PATH", env::join_paths(prefixes).unwrap());
        }
        let output = command.output().unwrap();
        assert!(output.status.success());
        let output = String::from_utf8(output.stdout).unwrap();
        let key = format!("cargo::{key}=");
        output.lines().filter_map(|line| line.strip_prefix(&key)).map(str::to_owned).collect()
    }

    fn errors(&self, prefixes: &[&Path]) -> Vec<String> {
        self.printed(prefixes, &[], "error")
    }
}

fn write(file: &Path) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, "").unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
}

/// Asserts that there is one error for each list of texts, which contains them.
fn assert_errors(errors: &[String], expected: &[&[&str]]) {
    assert_eq!(errors.len(), expected.len(), "{errors:?}");
    for (error, texts) in errors.iter().zip(expected) {
        assert!(texts.iter().all(|text| error.contains(text)), "{error} has {texts:?}");
    }
}

#[test]
fn what_is_missing_is_reported_with_the_command_that_adds_it() {
    let script = Script::build();
    let (prefix, share) = (script.path("prefix"), script.path("prefix/share"));
    assert_errors(&script.errors(&[]), &[&["source /opt/ros/"]]);
    for file in
        ["statistics_msgs/package.xml", "diagnostic_msgs/package.xml", "diagnostic_msgs/rust/Cargo.toml"]
    {
        write(&share.join(file));
    }
    let no_package: &[&str] = &[
        "topic_statistics_interfaces is not on AMENT_PREFIX_PATH",
        "colcon build --packages-select topic_statistics_interfaces",
    ];
    let no_crate =
        &["statistics_msgs has no Rust crate", "ros_interface_crates generate --out", "cargo install"];
    let errors = script.errors(&[&prefix]);
    assert_errors(&errors, &[no_crate, no_package]);
    assert!(!errors[0].contains("source"), "{}", errors[0]);
    for package in ["statistics_msgs", "topic_statistics_interfaces"] {
        write(&share.join(package).join("rust/Cargo.toml"));
    }
    // As in a terminal with the prefix of the crates, that has not sourced the workspace of the package.
    assert_errors(&script.errors(&[&prefix]), &[no_package]);
    write(&share.join("topic_statistics_interfaces/package.xml"));
    assert_errors(&script.errors(&[&prefix]), &[]);

    // The generator has to see the workspace of a package: as colcon has it, a prefix for each package.
    let install = script.path("install");
    let workspace = install.join("topic_statistics_interfaces");
    write(&workspace.join("share/topic_statistics_interfaces/package.xml"));
    let advice = format!("`(source {}/setup.bash && ros_interface_crates generate", install.display());
    let errors = script.errors(&[&workspace]);
    assert!(errors.iter().any(|error| error.contains(&advice)), "{errors:?}");

    let searched = script.printed(&[&workspace, &prefix], &[], "rustc-link-search");
    assert_eq!(searched, [&workspace, &prefix].map(|prefix| format!("native={}/lib", prefix.display())));

    // The shim needs no package, and the name of a distribution: without it rclrs 0.8 panics.
    let with_shim =
        |name, value| script.printed(&[], &[("CARGO_FEATURE_USE_ROS_SHIM", "1"), (name, value)], "error");
    assert_errors(&with_shim("ROS_DISTRO", "humble"), &[]);
    assert_errors(&with_shim("CARGO_ENCODED_RUSTFLAGS", "--cfg\x1fros_distro=\"humble\""), &[]); // as docs.rs has it
    let remedy = "`ROS_DISTRO=humble cargo check --features use_ros_shim`";
    assert_errors(&with_shim("CARGO_ENCODED_RUSTFLAGS", ""), &[&[remedy]]);
}

/// ros-env contains every crate, so the linker would miss the C libraries, minutes later.
#[test]
fn a_left_over_crate_is_reported_with_the_command_that_removes_it() {
    let script = Script::build();
    let (crates, install) = (script.path("crates"), script.path("install"));
    let other = install.join("other_msgs"); // a package of a colcon workspace sees only what it depends on
    let ours = ["diagnostic_msgs", "statistics_msgs", "topic_statistics_interfaces"];
    for package in ours.into_iter().chain(["other_msgs", "renamed_msgs"]) {
        write(&crates.join("share").join(package).join("rust/Cargo.toml"));
        write(&other.join("share").join(package).join("package.xml"));
    }
    let errors = || script.errors(&[&crates, &other]);
    assert_errors(&errors(), &[]);
    fs::remove_dir_all(other.join("share/renamed_msgs")).unwrap();
    let remedy = format!("`ros_interface_crates generate --out {}`", crates.display());
    assert_errors(&errors(), &[&["The Rust crate of renamed_msgs in ", &remedy]]);
    // Each of these makes the crate usable: the build of colcon later, its workspace, or its library.
    for (file, is_warning) in [
        (script.path("COLCON_IGNORE"), true),
        (install.join("renamed_msgs/share/renamed_msgs/package.xml"), false),
        (other.join("lib/librenamed_msgs__rosidl_typesupport_c.so"), false),
    ] {
        let error = errors();
        write(&file);
        assert_errors(&errors(), &[]);
        let warnings = script.printed(&[&crates, &other], &[], "warning");
        assert_eq!(warnings.first() == error.first(), is_warning, "{warnings:?}");
        fs::remove_file(file).unwrap();
    }
}

/// Packages as they are installed, in a prefix of the test's own, with their crates in another prefix.
struct Installed {
    script: Script,
    prefix: PathBuf,
    out: PathBuf,
}

impl Installed {
    fn new(packages: &[&str]) -> Installed {
        let script = Script::build();
        let [prefix, out] = ["ros", "crates"].map(|name| script.path(name));
        let found = env::var_os("AMENT_PREFIX_PATH").unwrap();
        for package in packages {
            let index = Path::new("share/ament_index/resource_index/rosidl_interfaces").join(package);
            let from = env::split_paths(&found).find(|prefix| prefix.join(&index).is_file()).unwrap();
            let share = Path::new("share").join(package);
            let mut files = vec![index, share.join("package.xml")];
            for namespace in ["msg", "srv", "action"].map(|namespace| share.join(namespace)) {
                let entries = fs::read_dir(from.join(&namespace)).into_iter().flatten();
                files.extend(entries.map(|file| namespace.join(file.unwrap().file_name())));
            }
            files.iter().for_each(|file| copy(&from.join(file), &prefix.join(file)));
        }
        Installed { script, prefix, out }
    }

    /// Generates the crates of these packages, or of all. Returns those that are skipped.
    fn generate(&self, packages: &[&str]) -> Vec<String> {
        let search = Search::new([self.out.clone(), self.prefix.clone()]);
        let search = if packages.is_empty() { search } else { search.only(packages.iter().copied()) };
        let report = generate(&search, &self.out, &mut |_, _, _| ()).unwrap();
        report.skipped.into_iter().map(|(package, _)| package).collect()
    }

    /// Asserts the errors of changed packages; the packages of the library are missing in this prefix.
    fn assert_errors(&self, expected: &[&[&str]]) {
        let mut errors = self.script.errors(&[&self.out, &self.prefix]);
        errors.retain(|error| !error.contains("is not on AMENT_PREFIX_PATH"));
        assert_errors(&errors, expected);
    }

    /// Replaces a text in a file of an interface, as a build of another definition does.
    fn edit(&self, interface: &str, extension: &str, from: &str, to: &str) {
        let file = self.prefix.join("share").join(interface).with_extension(extension);
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{interface} contains {from}");
        fs::write(file, text.replace(from, to)).unwrap();
    }

    /// Changes the hash of a type in the type description of an interface.
    fn change(&self, type_name: &str, interface: &str) {
        let file = self.prefix.join("share").join(interface).with_extension("json");
        let description: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        let types = description["type_hashes"].as_array().unwrap();
        let hash =
            types.iter().find(|of| of["type_name"] == type_name).unwrap()["hash_string"].as_str().unwrap();
        self.edit(interface, "json", hash, &hash.replace("RIHS01_", "RIHS01_0"));
    }
}

#[test]
fn a_changed_definition_is_an_error_until_it_is_generated_or_rebuilt() {
    let interfaces =
        ["action_msgs", "builtin_interfaces", "service_msgs", "std_msgs", "unique_identifier_msgs"];
    let installed = Installed::new(&interfaces);
    let generated = || assert_eq!(installed.generate(&[]), [""; 0]);
    generated();
    // Neither a comment nor what is left of an earlier interface is compiled.
    let edit = |interface, from, to| installed.edit(interface, "idl", from, to);
    edit("action_msgs/msg/GoalStatus", "The goal has been accepted", "const int8 OF_A_COMMENT = 1;");
    let messages = installed.prefix.join("share/action_msgs/msg");
    copy(&messages.join("GoalStatus.idl"), &messages.join("Renamed.idl"));
    installed.assert_errors(&[]);
    let command = format!("ros_interface_crates generate --out {}`", installed.out.display());
    let changed = |interface: &str, change: &dyn Fn()| {
        change();
        let package = interface.split('/').next().unwrap();
        let text =
            format!("{package} was generated from another definition of {interface} than the installed one");
        installed.assert_errors(&[&[&text, &command]]);
        generated();
        installed.assert_errors(&[]);
    };
    changed("std_msgs/msg/Bool", &|| installed.change("std_msgs/msg/Bool", "std_msgs/msg/Bool"));
    let module = "module GoalInfo_Constants { const int8 A = 1; };\n struct GoalInfo";
    for (interface, from, to) in [
        ("action_msgs/msg/GoalStatus", "STATUS_ACCEPTED = 1;", "STATUS_ACCEPTED = 7;"),
        ("action_msgs/srv/CancelGoal", "const int8 ERROR_NONE = 0;", ""),
        ("action_msgs/msg/GoalInfo", "struct GoalInfo", module),
    ] {
        changed(interface, &|| edit(interface, from, to));
    }

    // The record of an earlier generator says nothing about constants.
    let record = |package| installed.out.join("share").join(package).join("rust/definition.json");
    let text = fs::read_to_string(record("action_msgs")).unwrap();
    let before = text.split_once(",\n  \"constants\"").unwrap().0.replace("crates 0.", "crates 0.0.");
    fs::write(record("action_msgs"), format!("{before}\n}}\n")).unwrap();
    edit("action_msgs/msg/GoalStatus", "STATUS_ACCEPTED = 7;", "STATUS_ACCEPTED = 8;");
    installed.assert_errors(&[]);
    generated();

    // builtin_interfaces is rebuilt, with its crate; std_msgs is not, although its Header contains the type.
    let time = "builtin_interfaces/msg/Time";
    installed.change(time, time);
    installed.generate(&["builtin_interfaces"]);
    let errors = installed.script.errors(&[&installed.out, &installed.prefix]);
    let error = errors.iter().find(|error| error.contains("rebuild std_msgs")).unwrap();
    assert!(
        error.contains("std_msgs was built with another definition of builtin_interfaces/msg/Time"),
        "{error}"
    );
    // Users without std_msgs remove its crate: only a compiled crate is an error.
    assert!(
        error.contains(&format!("generate --out {}` removes its crate", installed.out.display())),
        "{error}"
    );
    assert!(installed.generate(&[]).contains(&"std_msgs".to_owned()));
    installed.assert_errors(&[]);

    // rosidl_generator_rs writes no record: its crate is that of the package.
    fs::remove_file(record("unique_identifier_msgs")).unwrap();
    installed.change("unique_identifier_msgs/msg/UUID", "unique_identifier_msgs/msg/UUID");
    installed.assert_errors(&[]);

    // The generator reads constants as the build script does: the functions are copies.
    let generator = include_str!("../../ros_interface_crates/src/constants.rs");
    let functions = generator.split("\n#[cfg(test)]").next().unwrap().split_once("pub fn").unwrap().1;
    assert!(functions.len() > 1000 && include_str!("../../build.rs").contains(functions));
}
