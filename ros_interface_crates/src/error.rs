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
#[allow(missing_docs)] // the texts describe the variants
pub enum Error {
    #[error("AMENT_PREFIX_PATH is not set, so there is no interface package to read; source a ROS 2 first")]
    NoPrefixes,
    #[error("No prefix on AMENT_PREFIX_PATH has an interface package")]
    NoPackages,
    #[error("No prefix on AMENT_PREFIX_PATH has an interface package {0}")]
    UnknownPackage(String),
    /// All type descriptions are missing: the distribution is older than ROS 2 Iron.
    #[error(
        "{} and all other type descriptions are missing: ROS 2 installs them since Iron, and the crates are \
         generated from them; Humble and older distributions are not supported, use Jazzy or later", .0.display()
    )]
    NoTypeDescriptions(PathBuf),
    #[error(
        "{} is missing: only packages that were built for ROS 2 Iron or later have type descriptions", .0.display()
    )]
    NoTypeDescription(PathBuf),
    /// A file of the definition has unexpected content.
    #[error("{} cannot be used: {reason}", path.display())]
    Definition { path: PathBuf, reason: String },
    #[error("Cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("Cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
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
        // Control characters from the file are escaped, because otherwise they would reach the terminal.
        let escaped = |c: char| if c.is_control() { c.escape_unicode().to_string() } else { c.into() };
        let reason = reason.to_string().chars().map(escaped).collect();
        Error::Definition { path: path.to_owned(), reason }
    }
}
