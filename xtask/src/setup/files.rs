// SPDX-License-Identifier: Apache-2.0

//! Files and directories.

use std::{
    fs::{self, File},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// Writes a file whole or not at all.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    let temporary = temporary(path);
    fs::write(&temporary, content)
        .and_then(|()| File::open(&temporary)?.sync_all())
        .and_then(|()| fs::rename(&temporary, path))
        .with_context(|| format!("Cannot write {}", path.display()))
}

/// The name under which a file is made, until it is whole.
pub fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

/// Removes a file or a whole directory, if it is there.
pub fn remove(path: &Path) -> Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("Cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The paths in a directory, sorted; none if it is no directory.
pub fn read_dir(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(vec![])
        }
        entries => entries.with_context(|| format!("Cannot read {}", directory.display()))?,
    };
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<Vec<_>>>()
        .with_context(|| format!("Cannot read {}", directory.display()))?;
    paths.sort();
    Ok(paths)
}

/// The directories below a prefix into which Python packages of it were installed.
pub fn python_directories(prefix: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![];
    for (lib, packages) in [("lib", "site-packages"), ("local/lib", "dist-packages")] {
        let versions = read_dir(&prefix.join(lib))?;
        let packages = versions.into_iter().map(|version| version.join(packages));
        found.extend(packages.filter(|directory| directory.is_dir()));
    }
    Ok(found)
}
