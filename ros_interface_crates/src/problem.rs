// SPDX-License-Identifier: Apache-2.0
//! Problems with the crate of a package.

use std::path::PathBuf;

use thiserror::Error;

use crate::Error;

/// The reason why a package has no usable crate, and the remedy. `path` is the directory of the crate, `definition` the
/// prefix of the definition.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the texts describe the variants
pub enum Problem {
    #[error(
        "it has no Rust crate; run `ros_interface_crates generate --out PREFIX` and put PREFIX first on \
         AMENT_PREFIX_PATH"
    )]
    Missing,
    #[error(
        "{} was generated from another definition than that in {}: {difference}; run `ros_interface_crates generate \
         --out PREFIX` again, with the PREFIX that is first on AMENT_PREFIX_PATH", path.display(), definition.display()
    )]
    Stale { path: PathBuf, definition: PathBuf, difference: String },
    #[error(
        "{}, which another generator wrote, differs from the definition in {}: {difference}; rebuild the package, or \
         run `ros_interface_crates generate --out PREFIX` and put PREFIX first on AMENT_PREFIX_PATH",
        path.display(), definition.display()
    )]
    Differs { path: PathBuf, definition: PathBuf, difference: String },
    /// The new crate would replace a crate that another generator wrote.
    #[error(
        "{} was not written by ros_interface_crates and is not overwritten, although it differs from \
         the definition in {}; rebuild the package, or choose another prefix to write to",
        path.display(), definition.display()
    )]
    NotOurs { path: PathBuf, definition: PathBuf },
    /// The new crate would not be used, because a prefix with another crate of the package comes first.
    #[error(
        "{} comes before {} on AMENT_PREFIX_PATH and has a crate that differs from its definition: {difference}; \
         put {} in front", by.display(), out.display(), out.display()
    )]
    Shadowed { by: PathBuf, out: PathBuf, difference: String },
    /// The package's C libraries and the package's crate would have different layouts of a type of another package,
    /// which is defined in the prefix `definition`.
    #[error(
        "it was built with another definition of {type_name} than that in {}; rebuild it",
        definition.display()
    )]
    BuiltWithOther { type_name: String, definition: PathBuf },
    #[error("it needs {0}, which has no usable Rust crate")]
    Needs(String),
    /// No prefix has the package of a crate. Programs do not link, because the C libraries of the package are missing.
    #[error(
        "{} is left over: no prefix on AMENT_PREFIX_PATH has the package, so programs do not link. Source the \
         workspace of the package, or, if there is none any more, {}", path.display(),
        if *is_ours { "run `ros_interface_crates generate --out PREFIX` with its PREFIX, which removes it" }
        else { "remove that directory" }
    )]
    LeftOver { path: PathBuf, is_ours: bool },
    #[error(transparent)]
    Unreadable(#[from] Error),
}
