// SPDX-License-Identifier: Apache-2.0

//! Which ROS 2 a verb works with.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Which ROS 2 a verb works with.
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
    /// The value of ROS_DISTRO.
    pub fn name(self) -> &'static str {
        match self {
            Distro::Kilted => "kilted",
            Distro::Jazzy => "jazzy",
        }
    }
}
