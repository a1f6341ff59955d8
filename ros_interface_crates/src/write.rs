// SPDX-License-Identifier: Apache-2.0
//! Writes crates to a prefix.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::{model::Package, read::RESOURCE_INDEX, render, search::crate_directory, Error};

/// Locks the prefix, after waiting for other generators that have locked it. Dropping the returned file unlocks the
/// prefix.
#[cfg(unix)]
pub fn lock(out: &Path) -> Result<File, Error> {
    use rustix::fs::{flock, FlockOperation};

    fs::create_dir_all(out).map_err(Error::write(out))?;
    let directory = File::open(out).map_err(Error::write(out))?;
    match flock(&directory, FlockOperation::LockExclusive).map_err(io::Error::from) {
        // Some network file systems do not support locks.
        Err(error) if error.kind() != ErrorKind::Unsupported => Err(Error::write(out)(error)),
        _ => Ok(directory),
    }
}

/// Creates the prefix without locking it, because this platform cannot open a directory as a file.
#[cfg(not(unix))]
pub fn lock(out: &Path) -> Result<(), Error> {
    fs::create_dir_all(out).map_err(Error::write(out))
}

/// Writes the crate of a package, and replaces an existing crate.
///
/// The crate is first written under another name and then renamed, so that readers never see an incomplete crate.
pub fn write_crate(out: &Path, package: &Package) -> Result<(), Error> {
    let place = crate_directory(out, &package.name);
    let [temporary, old] = remove_remains(out, &package.name)?;
    for (path, content) in render::files(package) {
        let path = temporary.join(path);
        let directory = path.parent().unwrap_or(&temporary);
        fs::create_dir_all(directory).map_err(Error::write(directory))?;
        fs::write(&path, content).map_err(Error::write(&path))?;
    }
    unless_missing(fs::rename(&place, &old)).map_err(Error::write(&place))?;
    fs::rename(&temporary, &place).map_err(Error::write(&place))?;
    unless_missing(fs::remove_dir_all(&old)).map_err(Error::write(&old))?;
    register(out, &package.name)
}

/// Writes the marker with which colcon-ros-cargo finds the crate, so that colcon-ros-cargo can resolve `sensor_msgs =
/// "*"`.
pub fn register(out: &Path, package: &str) -> Result<(), Error> {
    let index = out.join(RESOURCE_INDEX).join("rust_packages");
    fs::create_dir_all(&index).map_err(Error::write(&index))?;
    let marker = index.join(package);
    if !marker.exists() {
        fs::write(&marker, "").map_err(Error::write(&marker))?;
    }
    Ok(())
}

pub fn remove_crate(out: &Path, package: &str) -> Result<(), Error> {
    let place = crate_directory(out, package);
    unless_missing(fs::remove_dir_all(&place)).map_err(Error::write(&place))?;
    let marker = out.join(RESOURCE_INDEX).join("rust_packages").join(package);
    unless_missing(fs::remove_file(&marker)).map_err(Error::write(&marker))
}

/// Updates the modification time of a crate's manifest, as if the crate had been written.
pub fn touch(out: &Path, package: &str) -> Result<(), Error> {
    let manifest = crate_directory(out, package).join("Cargo.toml");
    let file = File::options().append(true).open(&manifest).map_err(Error::write(&manifest))?;
    file.set_modified(SystemTime::now()).map_err(Error::write(&manifest))
}

/// Removes the temporary directories that a killed generator has left. Returns the temporary paths for the new crate
/// and for the replaced crate.
pub fn remove_remains(out: &Path, package: &str) -> Result<[PathBuf; 2], Error> {
    let place = crate_directory(out, package);
    let remains = ["rust.part", "rust.old.part"].map(|name| place.with_file_name(name));
    for directory in &remains {
        unless_missing(fs::remove_dir_all(directory)).map_err(Error::write(directory))?;
    }
    Ok(remains)
}

/// Returns the result of removing or renaming a file, but treats a missing file as success.
fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}
