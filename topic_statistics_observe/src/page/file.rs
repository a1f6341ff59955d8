// SPDX-License-Identifier: Apache-2.0

//! The file that `--report` writes.

use std::{
    fs,
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

/// The file that a page is written to. The file never contains only a part of a page.
#[derive(Debug)]
pub struct PageFile(PathBuf);

impl PageFile {
    /// Errors if the file cannot be written, as far as this can be checked before the run.
    pub fn new(path: &Path) -> Result<Self, String> {
        let error = |error: io::Error| format!("cannot write the report {}: {error}", path.display());
        let invalid = |text: &str| error(io::Error::new(ErrorKind::InvalidInput, text));
        // The page replaces a symbolic link, and does not follow the link: another user who can write to the directory
        // could have created a link to an important file.
        match fs::symlink_metadata(path) {
            Ok(file) if file.is_file() || file.is_symlink() => {}
            Ok(_) => return Err(invalid("it is there and no regular file")),
            Err(missing) if missing.kind() == ErrorKind::NotFound && path.file_name().is_some() => {}
            Err(other) => return Err(error(other)),
        }
        let file = Self(std::path::absolute(path).map_err(error)?);
        file.temporary().and_then(NamedTempFile::close).map_err(error)?;
        Ok(file)
    }

    pub fn write(&self, page: &str) -> Result<(), String> {
        let written = || {
            let mut file = self.temporary()?;
            file.write_all(page.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(&self.0)?;
            Ok(())
        };
        written().map_err(|error: io::Error| format!("cannot write the report {}: {error}", self.0.display()))
    }

    /// Creates a temporary file that can be renamed to the page's file, and that is removed when dropped.
    fn temporary(&self) -> io::Result<NamedTempFile> {
        let directory = self.0.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new();
        file.prefix(".report-").suffix(".part");
        // The file gets the usual permissions of a new file: other users can read the file if the process's umask
        // permits that.
        #[cfg(unix)]
        file.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        file.tempfile_in(directory)
    }
}
