// SPDX-License-Identifier: Apache-2.0
//! Which crates are written, rewritten and left alone.

use std::{
    fs,
    time::{Duration, SystemTime},
};

use crate::prefix::{hash, search, Field, Prefix, X, Y};
use ros_interface_crates::{generate, Error, Problem};

const POINT: Field = ("point", 1, "shapes/msg/Point", "shapes::msg::Point");

#[test]
fn a_package_without_a_crate_gets_one_and_the_second_run_leaves_it_alone() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    let mut steps = vec![];
    let mut progress = |done, count, package: &str| steps.push((done, count, package.to_owned()));

    let report = generate(&search(&[&ros]), out.path(), &mut progress).unwrap();

    assert_eq!(report.written, ["shapes"]);
    assert_eq!(steps, [(0, 1, "shapes".to_owned())]);
    let text = out.read("shapes", "src/msg/rmw.rs");
    assert!(
        text.contains("pub x: f64,") && text.contains("pub const MANY: u64 = 18446744073709551615;"),
        "{text}"
    );

    let file = out.crate_file("shapes", "src/msg/rmw.rs");
    let before = fs::metadata(&file).unwrap().modified().unwrap();
    let second = out.generate(&[&ros]);
    assert_eq!((second.written.len(), second.kept), (0, vec!["shapes".to_owned()]));
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), before);
}

#[test]
fn a_new_crate_makes_those_beside_it_newer_because_ros_env_watches_no_others() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    out.generate(&[&ros]);
    let manifest = out.crate_file("shapes", "Cargo.toml");
    let modified = || fs::metadata(&manifest).unwrap().modified().unwrap();
    let before = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    fs::File::options().append(true).open(&manifest).unwrap().set_modified(before).unwrap();

    out.generate(&[&ros]);
    assert_eq!(modified(), before, "nothing is written, nothing is built again");

    ros.install("other", "Other", &[X], "", &[]);
    assert_eq!(out.generate(&[&ros]).written, ["other"]);
    assert!(modified() > before);
}

#[test]
fn a_crate_is_rewritten_when_the_structure_of_a_type_changes() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    out.generate(&[&ros]);
    ros.install("shapes", "Point", &[X, Y], "", &[]);

    let report = out.generate(&[&ros]);

    assert_eq!(report.written, ["shapes"]);
    assert!(out.read("shapes", "src/msg/rmw.rs").contains("pub y: f64,"));
    let leftovers = fs::read_dir(out.share().join("shapes")).unwrap().count();
    assert_eq!(leftovers, 1, "only `rust`");
}

#[test]
fn a_crate_is_rewritten_when_only_a_constant_changes() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    out.generate(&[&ros]);
    ros.install("shapes", "Point", &[X], "const uint64 MANY = 3;", &[]);

    assert_eq!(out.generate(&[&ros]).written, ["shapes"]);
    assert!(out.read("shapes", "src/msg.rs").contains("pub const MANY: u64 = 3;"));
}

#[test]
fn a_crate_of_another_state_of_the_generator_is_rewritten() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    out.generate(&[&ros]);
    let record = out.read("shapes", "definition.json").replace("crates 0.", "crates 99.");
    out.write("shapes/rust/definition.json", &record);

    assert_eq!(out.generate(&[&ros]).written, ["shapes"]);
}

#[test]
fn the_crate_of_an_underlay_does_not_count_for_the_definition_of_an_overlay() {
    let underlay = Prefix::with_point(&[X]);
    underlay.generate(&[&underlay]);
    let (overlay, out) = (Prefix::with_point(&[X, Y]), Prefix::new());

    let report = out.generate(&[&overlay, &underlay]);

    assert_eq!(report.written, ["shapes"]);
    assert!(out.read("shapes", "src/msg.rs").contains("pub y: f64,"));
    assert!(!underlay.read("shapes", "src/msg.rs").contains("pub y: f64,"), "only `out` is written to");
}

#[test]
fn an_overlay_with_the_same_definition_uses_the_crate_of_the_underlay() {
    let underlay = Prefix::with_point(&[X]);
    underlay.generate(&[&underlay]);
    let (overlay, out) = (Prefix::with_point(&[X]), Prefix::new());

    assert_eq!(out.generate(&[&overlay, &underlay]).kept, ["shapes"]);
}

#[test]
fn a_crate_of_another_generator_is_kept_if_it_fits() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    ros.install_foreign_crate();

    assert_eq!(out.generate(&[&ros]).kept, ["shapes"]);
    assert!(!out.share().join("shapes").exists());
}

#[test]
fn a_crate_of_another_generator_that_differs_is_never_overwritten() {
    let ros = Prefix::with_point(&[X, Y]);
    ros.install_foreign_crate();
    let before = ros.read("shapes", "src/msg/rmw.rs");

    let report = ros.generate(&[&ros]);
    assert!(matches!(&report.skipped[..], [(_, Problem::NotOurs { .. })]), "{report}");
    assert_eq!(ros.read("shapes", "src/msg/rmw.rs"), before);

    // A prefix in front of it gets the right one.
    let out = Prefix::new();
    assert_eq!(out.generate(&[&ros]).written, ["shapes"]);
    assert_eq!(ros.read("shapes", "src/msg/rmw.rs"), before);
}

#[test]
fn nothing_is_written_behind_a_crate_that_would_be_used_instead() {
    let (ros, out) = (Prefix::with_point(&[X, Y]), Prefix::new());
    ros.install_foreign_crate();

    let report = out.generate(&[&ros, &out]);

    let [(_, problem)] = &report.skipped[..] else { panic!("{report}") };
    assert!(matches!(problem, Problem::Shadowed { .. }), "{problem}");
    assert!(problem.to_string().contains("Point lacks the field y: f64"), "{problem}");
}

#[test]
fn a_package_whose_dependency_is_missing_is_skipped_with_the_reason() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    ros.install("paths", "Path", &[("gone", 145, "gone/msg/Gone", "gone::msg::Gone")], "", &[]);

    let report = out.generate(&[&ros]);

    assert_eq!(report.written, ["shapes"]);
    let [(package, problem)] = &report.skipped[..] else { panic!("{report}") };
    assert_eq!(package, "paths");
    assert_eq!(problem.to_string(), "it needs gone, which has no usable Rust crate");
}

#[test]
fn a_package_that_was_built_with_another_definition_of_a_type_gets_no_crate() {
    let (ros, overlay, out) = (Prefix::with_point(&[X]), Prefix::with_point(&[X, Y]), Prefix::new());
    ros.install("paths", "Path", &[POINT], "", &[("shapes/msg/Point", &hash(&[X]))]);
    assert_eq!(Prefix::new().generate(&[&ros]).written, ["paths", "shapes"]);

    let report = out.generate(&[&overlay, &ros]);

    assert_eq!(report.written, ["shapes"]);
    let [(package, problem)] = &report.skipped[..] else { panic!("{report}") };
    assert_eq!(package, "paths");
    assert!(
        problem.to_string().starts_with("it was built with another definition of shapes/msg/Point"),
        "{problem}"
    );
}

#[test]
fn a_crate_of_a_package_that_was_built_with_another_definition_is_removed_with_those_that_need_it() {
    let (ros, overlay, out) = (Prefix::with_point(&[X]), Prefix::with_point(&[X, Y]), Prefix::new());
    ros.install("paths", "Path", &[POINT], "", &[("shapes/msg/Point", &hash(&[X]))]);
    ros.install("maps", "Map", &[("path", 1, "paths/msg/Path", "paths::msg::Path")], "", &[]);
    assert_eq!(out.generate(&[&ros]).written, ["maps", "paths", "shapes"]);

    let only_shapes = search(&[&overlay, &ros]).only(["shapes", "paths"]);
    let report = generate(&only_shapes, out.path(), &mut |_, _, _| ()).unwrap();
    assert_eq!(
        (&report.written[..], &report.kept[..]),
        (&["shapes".to_owned()][..], &["paths".to_owned()][..])
    );

    let report = out.generate(&[&overlay, &ros]);
    assert_eq!(report.kept, ["shapes"]);
    let skipped: Vec<_> =
        report.skipped.iter().map(|(package, problem)| format!("{package}: {problem}")).collect();
    assert!(
        skipped[0].starts_with("paths: it was built with another definition of shapes/msg/Point"),
        "{report}"
    );
    assert_eq!(skipped[1], "maps: it needs paths, which has no usable Rust crate");
    let crates = ["maps", "paths", "shapes"].map(|package| out.crate_file(package, "Cargo.toml").exists());
    assert_eq!(crates, [false, false, true]);
    assert!(!out.share().join("ament_index/resource_index/rust_packages/paths").exists());

    // They return once the packages are rebuilt.
    ros.install("paths", "Path", &[POINT], "", &[("shapes/msg/Point", &hash(&[X, Y]))]);
    assert_eq!(out.generate(&[&overlay, &ros]).written, ["maps", "paths"]);
}

#[test]
fn only_the_packages_that_are_asked_for_and_their_dependencies_are_written() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    ros.install("paths", "Path", &[POINT], "", &[]);
    ros.install("other", "Other", &[X], "", &[]);
    let generate_only = |package| generate(&search(&[&ros]).only([package]), out.path(), &mut |_, _, _| ());

    assert_eq!(generate_only("paths").unwrap().written, ["paths", "shapes"]);
    let error = generate_only("no_such_msgs").unwrap_err();
    assert!(matches!(&error, Error::UnknownPackage(name) if name == "no_such_msgs"), "{error}");
}

#[test]
fn humble_is_refused() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    fs::remove_file(ros.share().join("shapes/msg/Point.json")).unwrap();
    let run = || generate(&search(&[&ros]), out.path(), &mut |_, _, _| ());

    let error = run().unwrap_err();
    assert!(matches!(error, Error::NoTypeDescriptions(_)), "{error}");
    assert!(error.to_string().contains("Humble"), "{error}");

    // With crates of another generator there is nothing to do.
    ros.install_foreign_crate();
    assert_eq!(run().unwrap().kept, ["shapes"]);
}

#[test]
fn one_package_without_type_descriptions_is_skipped_among_others() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    ros.install("old", "Old", &[X], "", &[]);
    fs::remove_file(ros.share().join("old/msg/Old.json")).unwrap();

    let report = out.generate(&[&ros]);

    assert_eq!(report.written, ["shapes"]);
    let expected = matches!(&report.skipped[..], [(_, Problem::Unreadable(Error::NoTypeDescription(_)))]);
    assert!(expected, "{report}");
}

#[test]
fn a_prefix_without_interfaces_is_an_error() {
    let out = Prefix::new();
    let error = generate(&search(&[&Prefix::new()]), out.path(), &mut |_, _, _| ()).unwrap_err();
    assert!(matches!(error, Error::NoPackages), "{error}");
}

#[test]
fn every_crate_is_registered_in_the_resource_index() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    out.generate(&[&ros]);
    let marker = out.share().join("ament_index/resource_index/rust_packages/shapes");
    assert!(marker.is_file());

    fs::remove_file(&marker).unwrap();
    assert_eq!(out.generate(&[&ros]).kept, ["shapes"]);
    assert!(marker.is_file(), "that of a crate that is kept is written again");
}

#[test]
fn what_a_killed_generator_left_is_removed() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    out.generate(&[&ros]);
    let remains = ["shapes/rust.part", "shapes/rust.old.part"];
    let files = || fs::read_dir(out.share().join("shapes")).unwrap().count();

    remains.iter().for_each(|directory| out.write(&format!("{directory}/Cargo.toml"), ""));
    assert_eq!(out.generate(&[&ros]).kept, ["shapes"]);
    assert_eq!(files(), 1);

    fs::remove_dir_all(out.share().join("shapes/rust")).unwrap();
    remains.iter().for_each(|directory| out.write(&format!("{directory}/Cargo.toml"), ""));
    assert_eq!(out.generate(&[&ros]).written, ["shapes"]);
    assert_eq!(files(), 1);
}

#[test]
fn comments_of_the_definition_are_doc_comments_without_links_and_html() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    out.generate(&[&ros]);
    for file in ["src/msg.rs", "src/msg/rmw.rs"] {
        let text = out.read("shapes", file);
        assert!(text.contains("/// `shapes/msg/Point`\n///\n/// A \\[point\\] in \\<space\\>.\n"), "{text}");
    }
}
