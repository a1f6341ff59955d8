// SPDX-License-Identifier: Apache-2.0

//! Libraries that are preloaded into processes: small C libraries for the tests, and the statistics library.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use tempfile::TempPath;

use super::skip;

/// Compiles `programs/<name>.c`. Returns `None` and logs that the test is skipped if there is no C compiler.
pub fn library(name: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().unwrap();
    let directory = test.parent().unwrap();
    let library = directory.join(format!("lib{name}.so"));
    // The library is renamed when complete, because another test process may compile the same one.
    let part = compile(name, directory, &["-shared", "-fPIC"])?;
    fs::rename(&part, &library).unwrap();
    let _it_is_renamed = part.keep();
    Some(library)
}

/// Compiles `programs/<name>.c` as a program, with arguments for the compiler. Returns `None` and logs that the test is
/// skipped if there is no C compiler.
pub fn program(name: &str, arguments: &[&str]) -> Option<TempPath> {
    compile(name, &std::env::temp_dir(), arguments)
}

fn compile(name: &str, directory: &Path, arguments: &[&str]) -> Option<TempPath> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(name).with_extension("c");
    // The file is closed, so that it can be executed.
    let compiled = tempfile::Builder::new().prefix(name).tempfile_in(directory).unwrap().into_temp_path();
    let output = Command::new(&compiler)
        .args(["-O2", "-Wall", "-Wextra", "-o"])
        .args([compiled.as_os_str(), source.as_os_str()])
        .args(arguments)
        .args(["-ldl", "-pthread"]) // separate libraries before glibc 2.34
        .output();
    let Ok(output) = output else {
        skip(
            &format!("a test with programs/{name}.c"),
            &format!("there is no C compiler {compiler:?} (cc, or CC)"),
        );
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(compiled)
}

/// Returns the path of the library `topic_statistics_preload`. `cargo test --workspace` builds it beside the tests.
///
/// Builds the library if it is missing, for example if only one package is tested. Panics if the build fails.
pub fn statistics() -> PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let test = std::env::current_exe().unwrap();
        let library = test.parent().unwrap().join("libtopic_statistics_preload.so");
        if !library.is_file() {
            let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            build
                .args(["build", "--package", "topic_statistics_preload"])
                .current_dir(env!("CARGO_MANIFEST_DIR"));
            if test.ancestors().nth(2).unwrap().ends_with("release") {
                build.arg("--release");
            }
            assert!(build.status().unwrap().success());
        }
        library
    };
    LIBRARY.get_or_init(build).clone()
}

/// Preloads a library, in front of the libraries that are already in `LD_PRELOAD`.
pub fn preload(command: &mut Command, library: &Path) {
    let mut libraries = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD") {
        libraries.push(":");
        libraries.push(others);
    }
    command.env("LD_PRELOAD", libraries);
}
