// SPDX-License-Identifier: Apache-2.0
//! Problems with the crate of a package.

use std::path::PathBuf;

use thiserror::Error;

use crate::Error;

/// The reason why a package has no usable crate, and the remedy.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Problem {
    /// No prefix has a crate for the package.
    #[error(
        "it has no Rust crate; run `ros_interface_crates generate --out PREFIX` and put PREFIX first on \
         AMENT_PREFIX_PATH"
    )]
    Missing,

    /// A crate that this generator wrote does not fit the definition.
    #[error(
        "{} was generated from another definition than that in {}: {difference}; run `ros_interface_crates generate \
         --out PREFIX` again, with the PREFIX that is first on AMENT_PREFIX_PATH", path.display(), definition.display()
    )]
    Stale {
        /// The directory of the crate.
        path: PathBuf,
        /// The prefix of the definition.
        definition: PathBuf,
        /// The difference between the crate and the definition.
        difference: String,
    },

    /// A crate that another generator wrote does not fit the definition.
    #[error(
        "{}, which another generator wrote, differs from the definition in {}: {difference}; rebuild the package, or \
         run `ros_interface_crates generate --out PREFIX` and put PREFIX first on AMENT_PREFIX_PATH",
        path.display(), definition.display()
    )]
    Differs {
        /// The directory of the crate.
        path: PathBuf,
        /// The prefix of the definition.
        definition: PathBuf,
        /// The difference between the crate and the definition.
        difference: String,
    },

    /// The new crate would replace a crate that another generator wrote.
    #[error(
        "{} was not written by ros_interface_crates and is not overwritten, although it differs from \
         the definition in {}; rebuild the package, or choose another prefix to write to",
        path.display(), definition.display()
    )]
    NotOurs {
        /// The directory of the crate.
        path: PathBuf,
        /// The prefix of the definition.
        definition: PathBuf,
    },

    /// The new crate would not be used, because a prefix with another crate of the package comes first.
    #[error(
        "{} comes before {} on AMENT_PREFIX_PATH and has a crate that differs from its definition: {difference}; \
         put {} in front", by.display(), out.display(), out.display()
    )]
    Shadowed {
        /// The directory of the crate that would be used instead.
        by: PathBuf,
        /// The prefix to write to.
        out: PathBuf,
        /// The difference between that crate and the definition.
        difference: String,
    },

    /// The package's C libraries and the package's crate would have different layouts of a type.
    #[error(
        "it was built with another definition of {type_name} than that in {}; rebuild it",
        definition.display()
    )]
    BuiltWithOther {
        /// The name of the type, which belongs to another package.
        type_name: String,
        /// The prefix of the other package.
        definition: PathBuf,
    },

    /// A dependency of this package has no usable crate.
    #[error("it needs {0}, which has no usable Rust crate")]
    Needs(String),

    /// No prefix has the package of a crate, so programs do not link.
    #[error(
        "{} is left over: no prefix on AMENT_PREFIX_PATH has the package, so programs do not link. Source the \
         workspace of the package, or, if there is none any more, {}", path.display(),
        if *is_ours { "run `ros_interface_crates generate --out PREFIX` with its PREFIX, which removes it" }
        else { "remove that directory" }
    )]
    LeftOver {
        /// The directory of the crate.
        path: PathBuf,
        /// Whether this generator wrote the crate.
        is_ours: bool,
    },

    /// The definition cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Error),
}
