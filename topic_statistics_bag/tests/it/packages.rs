// SPDX-License-Identifier: Apache-2.0

//! Installs, from PyPI, other libraries that read and write bags. The tests of topic_monitor also use this file.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Installs the libraries, and returns their directory. Returns `None` if PyPI cannot be reached.
pub fn packages() -> Option<PathBuf> {
    let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("../xtask/requirements/bags.txt");
    let wanted = fs::read(&requirements).unwrap();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign_bags");
    let is_installed =
        || fs::read(directory.join("installed.txt")).is_ok_and(|installed| installed == wanted);
    if is_installed() {
        return Some(directory);
    }
    // Installs into a temporary directory first, because the tests of topic_monitor may install them at the same time.
    let whole =
        tempfile::Builder::new().prefix("foreign_bags").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut pip = Command::new("python3");
    let options = "-m pip install --quiet --disable-pip-version-check --no-input --retries 1 --timeout 20 \
                   --require-hashes --no-deps --only-binary :all: --target";
    pip.args(options.split(' '));
    pip.arg(whole.path()).arg("-r").arg(requirements).stdout(Stdio::null());
    if !pip.status().is_ok_and(|status| status.success()) {
        return None;
    }
    fs::write(whole.path().join("installed.txt"), &wanted).unwrap();
    if !is_installed() {
        let _of_other_versions = fs::remove_dir_all(&directory);
        let renamed = fs::rename(whole.path(), &directory);
        assert!(renamed.is_ok() || is_installed(), "{renamed:?}");
    }
    Some(directory)
}
