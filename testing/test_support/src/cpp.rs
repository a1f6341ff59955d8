// SPDX-License-Identifier: Apache-2.0

//! A node with C++ messages. No registry has rclcpp, so the node uses rcl and the type support of C++.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{command, skip, Program};

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
        let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
        let libraries = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let folders =
            std::env::split_paths(&libraries).flat_map(|folder| ["-L".into(), folder.into_os_string()]);
        let names = ["rcl", "rcutils", "rmw", "sensor_msgs__rosidl_typesupport_cpp", "tracetools"];
        let compiled = Command::new(&compiler)
            .args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wl,--allow-shlib-undefined", "-pthread"])
            .args(includes())
            .args([source.as_path(), Path::new("-o"), &program])
            .args(folders)
            .args(names.map(|name| format!("-l{name}")))
            .output();
        let Ok(compiled) = compiled else {
            skip("a node in C++", &format!("there is no C++ compiler {compiler:?} (c++, or CXX)"));
            return None;
        };
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        Some(Self { program, _directory: directory })
    }

    /// Returns the command that starts the node.
    pub fn command(&self, domain: u32) -> Command {
        let mut command = command(&self.program, &[], domain);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// Starts the node.
    pub fn start(&self, domain: u32) -> Program {
        self.command(domain).spawn().unwrap().into()
    }
}

/// Returns the arguments of a C compiler for the headers of the sourced ROS 2.
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
