// SPDX-License-Identifier: Apache-2.0
//! Errors of the generator.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// The reason why crates could not be generated or checked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// AMENT_PREFIX_PATH is not set, so no prefix can be searched.
    #[error("AMENT_PREFIX_PATH is not set, so there is no interface package to read; source a ROS 2 first")]
    NoPrefixes,

    /// The prefixes have no interface package.
    #[error("No prefix on AMENT_PREFIX_PATH has an interface package")]
    NoPackages,

    /// No prefix has a package that was requested by name.
    #[error("No prefix on AMENT_PREFIX_PATH has an interface package {0}")]
    UnknownPackage(String),

    /// All type descriptions are missing: the distribution is older than ROS 2 Iron.
    #[error(
        "{} and all other type descriptions are missing: ROS 2 installs them since Iron, and the crates are \
         generated from them; Humble and older distributions are not supported, use Jazzy or later", .0.display()
    )]
    NoTypeDescriptions(PathBuf),

    /// The type description of one interface is missing.
    #[error(
        "{} is missing: only packages that were built for ROS 2 Iron or later have type descriptions", .0.display()
    )]
    NoTypeDescription(PathBuf),

    /// A file of the definition has unexpected content.
    #[error("{} cannot be used: {reason}", path.display())]
    Definition {
        /// The file.
        path: PathBuf,
        /// The unexpected content.
        reason: String,
    },

    /// A file or a directory cannot be read.
    #[error("Cannot read {}: {source}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },

    /// A file or a directory cannot be written.
    #[error("Cannot write {}: {source}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn read(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        |source| Error::Read { path, source }
    }

    pub(crate) fn write(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        |source| Error::Write { path, source }
    }

    pub(crate) fn definition(path: &Path, reason: impl ToString) -> Error {
        let mut text = String::new();
        for c in reason.to_string().chars() {
            // Control characters are escaped, because control characters from the file would reach the terminal.
            if c.is_control() {
                text.extend(c.escape_unicode());
            } else {
                text.push(c);
            }
        }
        Error::Definition { path: path.to_owned(), reason: text }
    }
}
