// SPDX-License-Identifier: Apache-2.0
//! The command as it is used by hand and in CI.

use std::{
    env, fs,
    process::{Command, Output},
};

use crate::prefix::{Prefix, X, Y};

fn run(prefixes: &[&Prefix], arguments: &[&str]) -> (Option<i32>, String) {
    let path = env::join_paths(prefixes.iter().map(|prefix| prefix.path())).unwrap();
    let output: Output = Command::new(env!("CARGO_BIN_EXE_ros_interface_crates"))
        .args(arguments)
        .env("AMENT_PREFIX_PATH", path)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn check_fails_until_every_package_has_the_crate_of_its_definition() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    let (code, text) = run(&[&out, &ros], &["check"]);
    assert_eq!(code, Some(1));
    assert!(text.starts_with("shapes: it has no Rust crate; run `ros_interface_crates generate"), "{text}");

    let (code, text) = run(&[&ros], &["generate", "--out", out.path().to_str().unwrap()]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("1 packages written: shapes\n0 packages have their crates already"), "{text}");
    let (code, text) = run(&[&out, &ros], &["check"]);
    assert_eq!((code, text.as_str()), (Some(0), "1 packages checked, 0 problems\n"));

    ros.install("shapes", "Point", &[X, Y], "", &[]);
    let (code, text) = run(&[&out, &ros], &["check", "--packages", "shapes"]);
    assert_eq!(code, Some(1));
    let path = out.share().join("shapes/rust");
    assert!(text.starts_with(&format!("shapes: {} was generated from", path.display())), "{text}");
    assert!(text.contains("shapes/msg/Point changed; run `ros_interface_crates generate"), "{text}");
}

#[test]
fn check_finds_a_crate_of_another_generator_that_differs() {
    let ros = Prefix::with_point(&[X]);
    ros.install_foreign_crate();
    assert_eq!(run(&[&ros], &["check"]).0, Some(0));

    ros.install("shapes", "Point", &[X], "const uint64 MANY = 3;", &[]);
    let (code, text) = run(&[&ros], &["check"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("Point lacks the constant MANY: u64 = 3; rebuild the package"), "{text}");

    let overlay = Prefix::with_point(&[Y]);
    let (_, text) = run(&[&overlay, &ros], &["check"]);
    assert!(text.contains("Point has the field x: f64 in place of y: f64; rebuild the package"), "{text}");
}

#[test]
fn what_cannot_be_checked_is_an_error() {
    assert_eq!(run(&[], &["check"]).0, Some(2));
    let ros = Prefix::with_point(&[X]);
    let (code, text) = run(&[&ros], &["check", "--packages", "shapes", "no_such_msgs"]);
    assert_eq!(code, Some(2));
    assert_eq!(text, "error: No prefix on AMENT_PREFIX_PATH has an interface package no_such_msgs\n");
}

#[test]
fn humble_has_nothing_to_generate_from() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    std::fs::remove_file(ros.share().join("shapes/msg/Point.json")).unwrap();
    let (code, text) = run(&[&ros], &["generate", "--out", out.path().to_str().unwrap()]);
    assert_eq!(code, Some(2));
    assert!(text.contains("Humble and older distributions are not supported"), "{text}");
    assert_eq!(run(&[&ros], &["check"]).0, Some(1));
}

#[test]
fn a_crate_whose_package_is_gone_is_named_by_check_and_removed_by_generate_if_it_is_ours() {
    let (ros, out) = (Prefix::with_point(&[X]), Prefix::new());
    ros.install("old", "Old", &[X], "", &[]);
    out.generate(&[&ros]);
    for file in ["old", "ament_index/resource_index/rosidl_interfaces/old"].map(|path| ros.share().join(path))
    {
        if file.is_dir() {
            fs::remove_dir_all(file).unwrap()
        } else {
            fs::remove_file(file).unwrap()
        }
    }
    out.write("foreign/rust/Cargo.toml", "");
    out.write("library/rust/Cargo.toml", ""); // as ament_cargo installs a library
    out.write("library/package.xml", "");
    let (code, text) = run(&[&out, &ros], &["check"]);
    let named = |package: &str| {
        format!("{package}: {} is left over", out.share().join(package).join("rust").display())
    };
    assert_eq!(code, Some(1));
    assert!(text.contains(&named("old")) && text.contains("with its PREFIX, which removes it"), "{text}");
    assert!(text.contains(&named("foreign")) && text.contains("remove that directory"), "{text}");
    assert!(text.contains("1 packages checked, 2 problems"), "{text}");

    let generate = ["generate", "--out", out.path().to_str().unwrap()];
    let (_, text) = run(&[&out, &ros], &[&generate[..], &["--packages", "shapes"]].concat());
    assert!(!text.contains("old"), "others are left alone: {text}");
    let (_, text) = run(&[&ros], &generate);
    assert!(text.contains("removed old: no prefix"), "{text}");
    assert!(text.contains(&format!("skipped {}", named("foreign"))), "{text}");
    assert!(
        !out.crate_file("old", "Cargo.toml").exists() && out.crate_file("foreign", "Cargo.toml").exists()
    );
    assert!(!out.share().join("ament_index/resource_index/rust_packages/old").exists());
}
