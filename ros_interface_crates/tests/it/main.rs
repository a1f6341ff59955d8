// SPDX-License-Identifier: Apache-2.0
//! Generates crates for temporary prefixes, without a ROS 2, and checks which crates are written, rewritten and kept.

mod prefix;

use std::{
    env, fs,
    process::Command,
    time::{Duration, SystemTime},
};

use prefix::{hash, search, Field, Prefix, X, Y};
use ros_interface_crates::{generate, Error, Problem, Report};

const POINT: Field = ("point", 1, "shapes/msg/Point", "shapes::msg::Point");

fn skipped(report: &Report) -> Vec<String> {
    report.skipped.iter().map(|(package, problem)| format!("{package}: {problem}")).collect()
}

#[test]
fn a_crate_is_rewritten_only_when_its_definition_changes() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    assert_eq!(out.generate(&[&ros]).written, ["shapes"]);
    let text = out.read("shapes", "src/msg/rmw.rs");
    assert!(text.contains("pub x: f64,") && text.contains("pub const MANY: u64 = 18446744073709551615;"));
    for text in [text, out.read("shapes", "src/msg.rs")] {
        assert!(text.contains("/// `shapes/msg/Point`\n///\n/// A \\[point\\] in \\<space\\>.\n"), "{text}");
    }

    // The second run keeps the crate, but restores its marker in the resource index.
    let marker = out.share().join("ament_index/resource_index/rust_packages/shapes");
    fs::remove_file(&marker).unwrap();
    let manifest = out.crate_file("shapes", "Cargo.toml");
    let modified = || fs::metadata(&manifest).unwrap().modified().unwrap();
    let before = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    fs::File::options().append(true).open(&manifest).unwrap().set_modified(before).unwrap();
    let second = out.generate(&[&ros]);
    assert_eq!((second.written.len(), second.kept), (0, vec!["shapes".to_owned()]));
    assert!(marker.is_file() && modified() == before);

    // When a new crate is written, the file times of the other crates are updated, because ros-env watches only the
    // crates that it already knows.
    ros.install("other", "Other", &[X], "", &[]);
    assert_eq!(out.generate(&[&ros]).written, ["other"]);
    assert!(modified() > before);

    let written = || out.generate(&[&ros]).written;
    ros.install("shapes", "Point", &[X, Y], "", &[]);
    assert_eq!(written(), ["shapes"]);
    assert!(out.read("shapes", "src/msg/rmw.rs").contains("pub y: f64,"));
    ros.install("shapes", "Point", &[X, Y], "const uint64 MANY = 3;", &[]);
    assert_eq!(written(), ["shapes"]);
    assert!(out.read("shapes", "src/msg.rs").contains("pub const MANY: u64 = 3;"));
    let record = out.read("shapes", "definition.json").replace("crates 0.", "crates 99.");
    out.write("shapes/rust/definition.json", &record);
    assert_eq!(written(), ["shapes"], "of another state of the generator");

    // The leftovers of a killed generator are removed.
    for is_there in [true, false] {
        for directory in ["rust.part", "rust.old.part"] {
            out.write(&format!("shapes/{directory}/Cargo.toml"), "");
        }
        if !is_there {
            fs::remove_dir_all(out.share().join("shapes/rust")).unwrap();
        }
        assert_eq!(written().is_empty(), is_there);
        assert_eq!(fs::read_dir(out.share().join("shapes")).unwrap().count(), 1, "only `rust`");
    }
}

#[test]
fn an_overlay_uses_the_crate_of_its_definition() {
    let underlay = Prefix::with_point(&[X]);
    underlay.generate(&[&underlay]);
    let (same, overlay, out) = (Prefix::with_point(&[X]), Prefix::with_point(&[X, Y]), Prefix::new());
    assert_eq!(out.generate(&[&same, &underlay]).kept, ["shapes"]);
    assert_eq!(out.generate(&[&overlay, &underlay]).written, ["shapes"]);
    assert!(out.read("shapes", "src/msg.rs").contains("pub y: f64,"));
    assert!(!underlay.read("shapes", "src/msg.rs").contains("pub y: f64,"), "only `out` is written to");
}

#[test]
fn a_crate_of_another_generator_is_never_overwritten() {
    let (fitting, out) = (Prefix::with_point(&[X]), Prefix::new());
    fitting.install_foreign_crate();
    assert_eq!(out.generate(&[&fitting]).kept, ["shapes"]);
    assert!(!out.share().join("shapes").exists());

    let ros = Prefix::with_point(&[X, Y]);
    ros.install_foreign_crate();
    let before = ros.read("shapes", "src/msg/rmw.rs");
    let report = ros.generate(&[&ros]);
    assert!(matches!(&report.skipped[..], [(_, Problem::NotOurs { .. })]), "{report}");
    // If an earlier prefix has a crate of the package, no crate is written to `out`, because builds would use the
    // earlier crate. If `out` is the first prefix, the right crate is written to `out`.
    let report = out.generate(&[&ros, &out]);
    assert!(matches!(&report.skipped[..], [(_, Problem::Shadowed { .. })]), "{report}");
    assert!(skipped(&report)[0].contains("Point lacks the field y: f64"), "{report}");
    assert_eq!(out.generate(&[&ros]).written, ["shapes"]);
    assert_eq!(ros.read("shapes", "src/msg/rmw.rs"), before);
}

#[test]
fn a_crate_that_ros_env_leaves_out_is_generated_anew() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    ros.install_foreign_crate();
    // A manifest as rosidl_generator_rs 0.4.11 writes it.
    let manifest =
        "[package]\nname = \"shapes\"\nversion = \"1.2.3\"\n\n[package.metadata.rclrs]\nreexport = true\n";
    ros.write("shapes/rust/Cargo.toml", manifest);
    expect(&[&ros], &["check"], 1, &["lacks `[package.metadata.ros-env] include = true`"]);
    assert_eq!(out.generate(&[&ros]).written, ["shapes"]);
    expect(&[&out, &ros], &["check"], 0, &[]);
}

#[test]
fn a_package_gets_a_crate_only_with_its_dependencies() {
    let (ros, overlay, out) = (Prefix::with_point(&[X]), Prefix::with_point(&[X, Y]), Prefix::new());
    ros.install("paths", "Path", &[POINT], "", &[("shapes/msg/Point", &hash(&[X]))]);
    ros.install("maps", "Map", &[("path", 1, "paths/msg/Path", "paths::msg::Path")], "", &[]);
    ros.install("lost", "Lost", &[("gone", 145, "gone/msg/Gone", "gone::msg::Gone")], "", &[]);
    ros.install("old", "Old", &[X], "", &[]);
    fs::remove_file(ros.share().join("old/msg/Old.json")).unwrap();
    let only = |packages: &[&str], prefixes: &[&Prefix], out: &Prefix| {
        generate(&search(prefixes).only(packages.iter().copied()), out.path(), &mut |_, _, _| ())
    };
    assert_eq!(only(&["paths"], &[&ros], &Prefix::new()).unwrap().written, ["paths", "shapes"]);
    let report = out.generate(&[&ros]);
    assert_eq!(report.written, ["maps", "paths", "shapes"]);
    assert!(
        matches!(&report.skipped[..], [_, (_, Problem::Unreadable(Error::NoTypeDescription(_)))]),
        "{report}"
    );
    assert_eq!(skipped(&report)[0], "lost: it needs gone, which has no usable Rust crate");

    // `paths` was built with another definition of `shapes/msg/Point`. If all packages are requested, its crate is
    // removed, and so is the crate of `maps`, which needs `paths`.
    let report = only(&["shapes", "paths"], &[&overlay, &ros], &out).unwrap();
    assert_eq!([&report.written[..], &report.kept].concat(), ["shapes", "paths"]);
    ros.uninstall("lost");
    ros.uninstall("old");
    let report = out.generate(&[&overlay, &ros]);
    assert_eq!(report.kept, ["shapes"]);
    let problems = skipped(&report);
    assert!(
        problems[0].starts_with("paths: it was built with another definition of shapes/msg/Point"),
        "{report}"
    );
    assert_eq!(problems[1..], ["maps: it needs paths, which has no usable Rust crate"]);
    let crates = ["maps", "paths", "shapes"].map(|package| out.crate_file(package, "Cargo.toml").exists());
    assert_eq!(crates, [false, false, true]);
    assert!(!out.share().join("ament_index/resource_index/rust_packages/paths").exists());

    // When the packages are rebuilt, their crates are written again.
    ros.install("paths", "Path", &[POINT], "", &[("shapes/msg/Point", &hash(&[X, Y]))]);
    assert_eq!(out.generate(&[&overlay, &ros]).written, ["maps", "paths"]);
}

/// Runs the program. Asserts its status, and that its output contains the texts. Returns the output.
fn expect(prefixes: &[&Prefix], arguments: &[&str], code: i32, texts: &[&str]) -> String {
    let path = env::join_paths(prefixes.iter().map(|prefix| prefix.path())).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_ros_interface_crates"));
    let output = program.args(arguments).env("AMENT_PREFIX_PATH", path).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    assert!(texts.iter().all(|expected| text.contains(expected)), "{texts:?} in {text}");
    text
}

#[test]
fn check_fails_until_every_package_has_its_crate() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    let generate = ["generate", "--out", out.path().to_str().unwrap()];
    expect(
        &[&out, &ros],
        &["check"],
        1,
        &["shapes: it has no Rust crate; run `ros_interface_crates generate"],
    );
    expect(&[&ros], &generate, 0, &["1 packages written: shapes\n0 packages have their crates already"]);
    assert_eq!(expect(&[&out, &ros], &["check"], 0, &[]), "1 packages checked, 0 problems\n");
    ros.install("shapes", "Point", &[X, Y], "", &[]);
    let named = format!("shapes: {} was generated from", out.share().join("shapes/rust").display());
    let changed = "shapes/msg/Point changed; run `ros_interface_crates generate";
    expect(&[&out, &ros], &["check", "--packages", "shapes"], 1, &[&named, changed]);

    let ros = Prefix::with_point(&[X]);
    ros.install_foreign_crate();
    expect(&[&ros], &["check"], 0, &[]);
    let overlay = Prefix::with_point(&[Y]);
    let field = "Point has the field x: f64 in place of y: f64; rebuild the package";
    expect(&[&overlay, &ros], &["check"], 1, &[field]);
    ros.install("shapes", "Point", &[X], "const uint64 MANY = 3;", &[]);
    expect(&[&ros], &["check"], 1, &["Point lacks the constant MANY: u64 = 3; rebuild the package"]);

    expect(&[], &["check"], 2, &[]);
    let unknown = "error: No prefix on AMENT_PREFIX_PATH has an interface package no_such_msgs\n";
    assert_eq!(expect(&[&ros], &["check", "--packages", "shapes", "no_such_msgs"], 2, &[]), unknown);
}

#[test]
fn humble_is_not_supported() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    fs::remove_file(ros.share().join("shapes/msg/Point.json")).unwrap();
    let generate = ["generate", "--out", out.path().to_str().unwrap()];
    expect(&[&ros], &generate, 2, &["Humble and older distributions are not supported"]);
    expect(&[&ros], &["check"], 1, &[]);
    // If another generator has written the crates, `generate` succeeds without type descriptions.
    ros.install_foreign_crate();
    expect(&[&ros], &generate, 0, &["1 packages have their crates already"]);
    let none = ros_interface_crates::generate(&search(&[&Prefix::new()]), out.path(), &mut |_, _, _| ());
    assert!(matches!(none, Err(Error::NoPackages)));
}

#[test]
fn leftover_crates_are_reported_and_ours_are_removed() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    ros.install("old", "Old", &[X], "", &[]);
    out.generate(&[&ros]);
    ros.uninstall("old");
    out.write("foreign/rust/Cargo.toml", "");
    out.write("library/rust/Cargo.toml", ""); // ament_cargo installs a library like this
    out.write("library/package.xml", "");
    let named = |package: &str| {
        format!("{package}: {} is left over", out.share().join(package).join("rust").display())
    };
    let remedies =
        ["with its PREFIX, which removes it", "remove that directory", "1 packages checked, 2 problems"];
    expect(&[&out, &ros], &["check"], 1, &[&[&*named("old"), &*named("foreign")], &remedies[..]].concat());

    let generate = ["generate", "--out", out.path().to_str().unwrap()];
    let text = expect(&[&out, &ros], &[&generate[..], &["--packages", "shapes"]].concat(), 0, &[]);
    assert!(!text.contains("old"), "others are left alone: {text}");
    let skipped = format!("skipped {}", named("foreign"));
    expect(&[&ros], &generate, 0, &["removed old: no prefix", &skipped]);
    let crates = ["old", "foreign"].map(|package| out.crate_file(package, "Cargo.toml").exists());
    assert_eq!(crates, [false, true]);
    assert!(!out.share().join("ament_index/resource_index/rust_packages/old").exists());
}
