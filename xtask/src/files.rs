// SPDX-License-Identifier: Apache-2.0

//! Files and directories.

use std::{
    fs::{self, File},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// Writes a file atomically.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    let temporary = path.with_file_name(format!("{}.part", path.file_name().unwrap_or_default().display()));
    fs::write(&temporary, content)
        .and_then(|()| File::open(&temporary)?.sync_all())
        .and_then(|()| fs::rename(&temporary, path))
        .with_context(|| format!("Cannot write {}", path.display()))
}

/// Removes a file or a whole directory, if it exists.
pub fn remove(path: &Path) -> Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    removed.with_context(|| format!("Cannot remove {}", path.display()))
}

/// Returns the sorted paths in a directory. Returns no paths if `directory` is not a directory.
pub fn read_dir(directory: &Path) -> Result<Vec<PathBuf>> {
    if !directory.is_dir() {
        return Ok(vec![]);
    }
    let entries =
        fs::read_dir(directory).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut paths: Vec<_> = entries.with_context(|| format!("Cannot read {}", directory.display()))?;
    paths.sort();
    Ok(paths)
}
