// SPDX-License-Identifier: Apache-2.0

//! A node with C++ messages. No package registry has rclcpp, so the node calls rcl, with the type support for C++.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{command, compiles};

/// The compiled node of `programs/cpp_node.cpp`.
pub struct CppNode {
    program: PathBuf,
    _directory: tempfile::TempDir,
}

impl CppNode {
    /// Compiles the node for the sourced ROS 2. Returns `None` and logs the reason if there is no C++ compiler.
    pub fn compile() -> Option<Self> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/cpp_node.cpp");
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("cpp_node");
        let libraries = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let folders =
            std::env::split_paths(&libraries).flat_map(|folder| ["-L".into(), folder.into_os_string()]);
        let names = ["rcl", "rcutils", "rmw", "sensor_msgs__rosidl_typesupport_cpp", "tracetools"];
        let options =
            ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wl,--allow-shlib-undefined", "-pthread", "-o"];
        let files = [program.clone().into(), source.into()];
        let libraries = names.map(|name| format!("-l{name}").into());
        let arguments = options.map(OsString::from).into_iter().chain(files).chain(includes());
        let mut arguments = arguments.chain(folders).chain(libraries);
        compiles("a node in C++", ["CXX", "c++"], &mut arguments)
            .then_some(Self { program, _directory: directory })
    }

    /// Returns the command that starts the node.
    pub fn command(&self, domain: u32) -> Command {
        let mut command = command(&self.program, &[], domain);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }
}

/// Returns the arguments with which a C compiler finds the headers of the sourced ROS 2.
pub fn includes() -> impl Iterator<Item = OsString> {
    let prefixes = std::env::var_os("AMENT_PREFIX_PATH").expect("a sourced ROS 2");
    let prefixes: Vec<PathBuf> = std::env::split_paths(&prefixes).collect();
    let folders = prefixes.into_iter().flat_map(|prefix| {
        // Since Humble, the headers of a package are in a folder with its name.
        let folders = std::fs::read_dir(prefix.join("include")).into_iter().flatten().flatten();
        folders.map(|folder| folder.path()).filter(|folder| folder.is_dir()).collect::<Vec<_>>()
    });
    folders.flat_map(|folder| ["-I".into(), folder.into_os_string()])
}
