// SPDX-License-Identifier: Apache-2.0
//! Comments of definitions give documentation without warnings, and no code to test.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

#[test]
fn the_documentation_of_every_crate_has_no_warnings_and_no_doctests() {
    let workspace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documentation");
    let members = workspace.join("crates");
    let _ = fs::remove_dir_all(&members);
    let packages = copy_crates(&members);
    let patches: String =
        packages.iter().map(|name| format!("{name} = {{ path = \"crates/{name}\" }}\n")).collect();
    let manifest =
        format!("[workspace]\nresolver = \"2\"\nmembers = [\"crates/*\"]\n\n[patch.crates-io]\n{patches}");
    fs::write(workspace.join("Cargo.toml"), manifest).unwrap();
    // The versions that the project is tested with.
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap();
    fs::copy(project.join("Cargo.lock"), workspace.join("Cargo.lock")).unwrap();

    let cargo = |arguments: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(arguments).current_dir(&workspace);
        cargo.env("CARGO_TARGET_DIR", workspace.join("target"));
        let output =
            cargo.env("RUSTDOCFLAGS", "-D warnings").env("RUSTFLAGS", "-D warnings").output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.success(), "cargo {arguments:?}: {text}");
        text
    };
    cargo(&["doc", "--workspace", "--no-deps"]);
    let tested = cargo(&["test", "--workspace", "--doc"]);
    assert_eq!(tested.matches("\nrunning 0 tests").count(), packages.len(), "{tested}");
    assert_eq!(tested.matches("\nrunning ").count(), packages.len(), "{tested}");
}

/// Copies the crates of AMENT_PREFIX_PATH that this generator wrote; returns their names.
fn copy_crates(to: &Path) -> Vec<String> {
    let path = env::var_os("AMENT_PREFIX_PATH").unwrap_or_default();
    let mut names = vec![];
    for share in env::split_paths(&path).map(|prefix| prefix.join("share")).filter(|share| share.is_dir()) {
        for entry in fs::read_dir(share).unwrap().map(Result::unwrap) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let from = entry.path().join("rust");
            if from.join("definition.json").is_file() && !names.contains(&name) {
                copy(&from, &to.join(&name));
                names.push(name);
            }
        }
    }
    names
}

fn copy(from: &PathBuf, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}
