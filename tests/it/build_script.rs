// SPDX-License-Identifier: Apache-2.0

//! The build script reports missing and changed interface packages. Each report has the command that generates the
//! package's crate.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use ros_interface_crates::{generate, Search};

/// The compiled build script, in a temporary directory.
struct Script(tempfile::TempDir);

impl Script {
    fn build() -> Script {
        let directory = tempfile::tempdir().unwrap();
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let (project, built) = (Path::new(env!("CARGO_MANIFEST_DIR")), directory.path());
        let compile = |source: &str, options: &[&str]| {
            let mut rustc = Command::new(&rustc);
            rustc.arg(project.join(source)).args(["--edition=2021", "-L"]).arg(built).args(options);
            assert!(rustc.arg("--out-dir").arg(built).status().unwrap().success());
        };
        compile("src/ros_idl_tokens/src/lib.rs", &["--crate-type=lib", "--crate-name=ros_idl_tokens"]);
        compile("build.rs", &["--crate-name=build_script", "--extern=ros_idl_tokens"]);
        Script(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs the script with these prefixes and environment variables. Returns the texts that the script prints to cargo
    /// after `key=`.
    fn printed(&self, prefixes: &[&Path], variables: &[(&str, &str)], key: &str) -> Vec<String> {
        let mut command = Command::new(self.path("build_script"));
        let unset = [
            "AMENT_PREFIX_PATH",
            "CARGO_FEATURE_INTERFACES",
            "CARGO_FEATURE_USE_ROS_SHIM",
            "ROS_DISTRO",
            "CARGO_ENCODED_RUSTFLAGS",
        ];
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
        self.printed(prefixes, &[("CARGO_FEATURE_INTERFACES", "1")], "error")
    }
}

fn write(file: &Path) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, "").unwrap();
}

/// Asserts that there is one error for each list of texts, and that each error contains all texts of its list.
fn assert_errors(errors: &[String], expected: &[&[&str]]) {
    assert_eq!(errors.len(), expected.len(), "{errors:?}");
    for (error, texts) in errors.iter().zip(expected) {
        assert!(texts.iter().all(|text| error.contains(text)), "{error} has {texts:?}");
    }
}

#[test]
fn missing_packages_are_reported_with_the_fixing_command() {
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
        "Build without that feature",
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
    // The crate of topic_statistics_interfaces is on AMENT_PREFIX_PATH, but the package itself is not.
    assert_errors(&script.errors(&[&prefix]), &[no_package]);
    assert_errors(&script.printed(&[&prefix], &[], "error"), &[]); // without the feature `interfaces`
    write(&share.join("topic_statistics_interfaces/package.xml"));
    assert_errors(&script.errors(&[&prefix]), &[]);

    // The command in the error must source the workspace of the package. In colcon, each package has its own prefix.
    let install = script.path("install");
    let workspace = install.join("topic_statistics_interfaces");
    write(&workspace.join("share/topic_statistics_interfaces/package.xml"));
    let advice = format!("`(source {}/setup.bash && ros_interface_crates generate", install.display());
    let errors = script.errors(&[&workspace]);
    assert!(errors.iter().any(|error| error.contains(&advice)), "{errors:?}");

    let searched = script.printed(&[&workspace, &prefix], &[], "rustc-link-search");
    assert_eq!(searched, [&workspace, &prefix].map(|prefix| format!("native={}/lib", prefix.display())));

    // With the shim, no package is needed, but the name of a distribution is needed, because rclrs 0.8 panics without
    // it.
    let with_shim =
        |name, value| script.printed(&[], &[("CARGO_FEATURE_USE_ROS_SHIM", "1"), (name, value)], "error");
    assert_errors(&with_shim("ROS_DISTRO", "humble"), &[]);
    assert_errors(&with_shim("CARGO_ENCODED_RUSTFLAGS", "--cfg\x1fros_distro=\"humble\""), &[]); // as on docs.rs
    let remedy = "`ROS_DISTRO=humble cargo check --features use_ros_shim`";
    assert_errors(&with_shim("CARGO_ENCODED_RUSTFLAGS", ""), &[&[remedy]]);
}

/// ros-env includes every crate. Without the error of the build script, the linker would fail minutes later.
#[test]
fn a_leftover_crate_is_reported_with_the_removing_command() {
    let script = Script::build();
    let (crates, install) = (script.path("crates"), script.path("install"));
    let other = install.join("other_msgs"); // a package in a colcon workspace sees only its dependencies
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
    // Each of these files is a reason to report no error for the crate: a build by colcon, the package in a workspace,
    // and the package's library.
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

#[test]
fn a_changed_definition_is_an_error_until_it_is_generated() {
    let script = Script::build();
    let [prefix, out] = ["ros", "crates"].map(|name| script.path(name));
    fs::create_dir(&prefix).unwrap();
    let found = env::var_os("AMENT_PREFIX_PATH").unwrap();
    for package in ["action_msgs", "builtin_interfaces", "service_msgs", "std_msgs", "unique_identifier_msgs"]
    {
        let [index, share] = ["share/ament_index/resource_index/rosidl_interfaces", "share"]
            .map(|directory| format!("{directory}/{package}"));
        let from = env::split_paths(&found).find(|prefix| prefix.join(&index).is_file()).unwrap();
        let mut copy = Command::new("cp");
        copy.args(["-rL", "--parents", &index, &share]).arg(&prefix).current_dir(from);
        assert!(copy.status().unwrap().success());
        let _no_crate_there = fs::remove_dir_all(prefix.join(share).join("rust"));
    }
    // Generates the crates. Returns the packages that the generator skipped.
    let generate_from = |search: Search| {
        let report = generate(&search, &out, &mut |_, _, _| ()).unwrap();
        report.skipped.into_iter().map(|(package, _)| package).collect::<Vec<_>>()
    };
    let search = || Search::new([out.clone(), prefix.clone()]);
    let generated = || assert_eq!(generate_from(search()), [""; 0]);
    // The prefix lacks the packages that rclrs_topic_statistics needs, so the errors about these packages are left out.
    let errors = || {
        let mut errors = script.errors(&[&out, &prefix]);
        errors.retain(|error| !error.contains("is not on AMENT_PREFIX_PATH"));
        errors
    };
    let file = |interface: &str, extension| prefix.join("share").join(interface).with_extension(extension);
    let edit = |interface: &str, extension, from: &str, to: &str| {
        let file = file(interface, extension);
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{interface} contains {from}");
        fs::write(file, text.replace(from, to)).unwrap();
    };
    // Changes the hash of a type in its type description.
    let change = |name: &str| {
        let text = fs::read(file(name, "json")).unwrap();
        let description: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let types = description["type_hashes"].as_array().unwrap();
        let own = types.iter().find(|hash| hash["type_name"] == name).unwrap();
        let hash = own["hash_string"].as_str().unwrap();
        edit(name, "json", hash, &hash.replace("RIHS01_", "RIHS01_0"));
    };

    generated();
    // A changed comment, and a file left over from an earlier interface, must not be reported.
    let status = "action_msgs/msg/GoalStatus";
    edit(status, "idl", "The goal has been accepted", "const int8 OF_A_COMMENT = 1;");
    fs::copy(file(status, "idl"), file("action_msgs/msg/Renamed", "idl")).unwrap();
    assert_errors(&errors(), &[]);
    let command = format!("ros_interface_crates generate --out {}`", out.display());
    let assert_changed = |package: &str, interface: &str| {
        let text = format!("{package} was generated from another definition of {interface} than");
        assert_errors(&errors(), &[&[&text, &command]]);
        generated();
        assert_errors(&errors(), &[]);
    };
    change("std_msgs/msg/Bool");
    assert_changed("std_msgs", "std_msgs/msg/Bool");
    let module = "module GoalInfo_Constants { const int8 A = 1; };\n struct GoalInfo";
    for (interface, from, to) in [
        (status, "STATUS_ACCEPTED = 1;", "STATUS_ACCEPTED = 7;"),
        ("action_msgs/srv/CancelGoal", "const int8 ERROR_NONE = 0;", ""),
        ("action_msgs/msg/GoalInfo", "struct GoalInfo", module),
    ] {
        edit(interface, "idl", from, to);
        assert_changed("action_msgs", interface);
    }

    // An earlier version of the generator recorded no constants, so a changed constant is not reported.
    let record = |package| out.join("share").join(package).join("rust/definition.json");
    let text = fs::read_to_string(record("action_msgs")).unwrap();
    let before = text.split_once(",\n  \"constants\"").unwrap().0.replace("crates 0.", "crates 0.0.");
    fs::write(record("action_msgs"), format!("{before}\n}}\n")).unwrap();
    edit(status, "idl", "STATUS_ACCEPTED = 7;", "STATUS_ACCEPTED = 8;");
    assert_errors(&errors(), &[]);
    generated();

    // builtin_interfaces and its crate are rebuilt, but std_msgs is not, although its Header contains the type.
    change("builtin_interfaces/msg/Time");
    generate_from(search().only(["builtin_interfaces"]));
    let mut std_msgs_errors = errors();
    std_msgs_errors.retain(|error| error.contains("rebuild std_msgs"));
    // If a program does not use std_msgs, removing the crate of std_msgs also corrects the error.
    let removes = format!("generate --out {}` removes its crate", out.display());
    let built = "std_msgs was built with another definition of builtin_interfaces/msg/Time";
    assert_errors(&std_msgs_errors, &[&[built, &removes]]);
    assert!(generate_from(search()).contains(&"std_msgs".to_owned()));
    assert_errors(&errors(), &[]);

    // rosidl_generator_rs writes no record, so changes of its crates are not reported.
    fs::remove_file(record("unique_identifier_msgs")).unwrap();
    change("unique_identifier_msgs/msg/UUID");
    assert_errors(&errors(), &[]);
}
