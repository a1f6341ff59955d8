// SPDX-License-Identifier: Apache-2.0

//! Removes the files that killed Fast DDS processes have left in shared memory. (`fastdds shm clean` needs the package
//! psutil, which the wheels lack.)

use std::{collections::BTreeSet, fs, path::PathBuf};

/// Removes the shared-memory files of Fast DDS that no process has open or mapped, if this user may remove them. If a
/// new process needs the port to which such a file belongs, the process waits forever.
pub fn remove_unused_files() {
    let entries = |directory: PathBuf| fs::read_dir(directory).into_iter().flatten().flatten();
    let mut used = BTreeSet::new();
    for process in entries("/proc".into()) {
        let maps = fs::read_to_string(process.path().join("maps")).unwrap_or_default();
        let mapped = maps.lines().filter_map(|line| line.find("/dev/shm/").map(|start| &line[start..]));
        used.extend(mapped.map(PathBuf::from));
        used.extend(entries(process.path().join("fd")).filter_map(|file| fs::read_link(file.path()).ok()));
    }
    for file in entries("/dev/shm".into()) {
        let name = file.file_name().to_string_lossy().into_owned();
        let is_fast_dds = name.starts_with("fastdds_") || name.starts_with("sem.fastdds_");
        if is_fast_dds && !used.contains(&file.path()) {
            let _another_users = fs::remove_file(file.path());
        }
    }
}
