// SPDX-License-Identifier: Apache-2.0

//! Libraries that are preloaded into processes: small C libraries for the tests, and the statistics library.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use tempfile::TempPath;

use super::{built, compiles};

/// Compiles `programs/<name>.c`. Returns `None` and logs that the test is skipped if there is no C compiler.
pub fn library(name: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().unwrap();
    let directory = test.parent().unwrap();
    let library = directory.join(format!("lib{name}.so"));
    // The library is compiled under another name and then renamed, because another test process may compile it too.
    let part = compile(name, directory, &["-shared", "-fPIC"])?;
    fs::rename(&part, &library).unwrap();
    let _it_is_renamed = part.keep();
    Some(library)
}

/// Compiles `programs/<name>.c` as a program, with these arguments for the compiler. Returns `None` and logs that the
/// test is skipped if there is no C compiler.
pub fn program(name: &str, arguments: &[&str]) -> Option<TempPath> {
    compile(name, &std::env::temp_dir(), arguments)
}

fn compile(name: &str, directory: &Path, arguments: &[&str]) -> Option<TempPath> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(name).with_extension("c");
    // The temporary file is closed, because Linux does not execute a file that is open for writing.
    let compiled = tempfile::Builder::new().prefix(name).tempfile_in(directory).unwrap().into_temp_path();
    let files = [compiled.as_os_str().to_owned(), source.into()];
    let libraries = ["-ldl", "-pthread"]; // separate libraries until glibc 2.33
    let options = ["-O2", "-Wall", "-Wextra", "-o"].map(OsString::from).into_iter().chain(files);
    let mut all = options.chain(arguments.iter().chain(&libraries).map(OsString::from));
    compiles(&format!("a test with programs/{name}.c"), ["CC", "cc"], &mut all).then_some(compiled)
}

/// Returns the path of the library `topic_statistics_preload`. `cargo test --workspace` builds it beside the tests.
///
/// Builds the library if it is missing, for example if only one package is tested. Panics if the build fails.
pub fn statistics() -> PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let test = std::env::current_exe().unwrap();
        let library = test.with_file_name("libtopic_statistics_preload.so");
        built(library, test.ancestors().nth(2).unwrap(), &["--package", "topic_statistics_preload"])
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
