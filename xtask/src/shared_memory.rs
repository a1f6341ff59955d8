//! Leftovers of killed Fast DDS processes in shared memory.

use std::{collections::BTreeSet, fs, path::PathBuf};

/// Removes the files of Fast DDS's shared memory that no process has open or mapped, as far as this user may. A process
/// that finds one of its ports taken by such a file waits forever.
pub fn remove_what_nobody_uses() {
    let used = used();
    for file in fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
        let (path, name) = (file.path(), file.file_name());
        let name = name.to_string_lossy();
        let is_fast_dds = name.starts_with("fastdds_") || name.starts_with("sem.fastdds_");
        if is_fast_dds && !used.contains(&path) {
            let _another_users = fs::remove_file(path);
        }
    }
}

/// The files of shared memory that processes have open or mapped.
fn used() -> BTreeSet<PathBuf> {
    let mut used = BTreeSet::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let maps = fs::read_to_string(process.path().join("maps")).unwrap_or_default();
        let mapped = maps.lines().filter_map(|line| line.find("/dev/shm/").map(|start| &line[start..]));
        used.extend(mapped.map(PathBuf::from));
        let open = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        used.extend(open.filter_map(|descriptor| fs::read_link(descriptor.path()).ok()));
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_uses_stays_and_what_nobody_uses_goes() {
        let file =
            |what: &str| PathBuf::from(format!("/dev/shm/fastdds_xtask_{what}_{}", std::process::id()));
        let (kept, left) = (file("kept"), file("left"));
        let Ok(_open) = fs::File::create(&kept) else {
            eprintln!("skipped: there is no /dev/shm that can be written");
            return;
        };
        fs::write(&left, "").unwrap();
        remove_what_nobody_uses();
        assert!(kept.exists() && !left.exists());
        fs::remove_file(kept).unwrap();
    }
}
