// SPDX-License-Identifier: Apache-2.0
//! Generates the Rust crates of installed ROS 2 interface packages, in the form that ros-env and rclrs use.
//!
//! From ROS 2 Lyrical on, distributions have the generator rosidl_generator_rs, which runs when a package is built.
//! ros_interface_crates instead reads installed packages:
//!
//! - the *structure* of every type from its type description (`<interface>.json`, since ROS 2 Iron). The hash of a type
//!   is computed from the type description. This description has all bounds of sequences and strings, and also the
//!   types that a service or an action implies.
//! - *constants* and *comments*, which the type description lacks, from `<interface>.idl`.
//!
//! The form of the crates is defined by the build script of ros-env 0.3, the traits of rosidl_runtime_rs 0.7, and the
//! use of these traits in rclrs 0.8.
//!
//! [`generate()`] writes crates. [`check()`] finds crates that are missing or older than their definitions. Both
//! functions take a [`Search`]:
//!
//! ```no_run
//! use ros_interface_crates::{check, generate, Search};
//!
//! # fn main() -> Result<(), ros_interface_crates::Error> {
//! let search = Search::from_env()?.only(["sensor_msgs"]);
//! let report = generate(&search, "/opt/rust_interfaces".as_ref(), &mut |_, _, _| ())?;
//! println!("{report}");
//! for (package, problem) in check(&search)?.problems {
//!     println!("{package}: {problem}");
//! }
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

mod check;
mod description;
mod doc;
mod error;
mod foreign;
mod generate;
mod generator;
mod idl;
mod model;
mod names;
mod problem;
mod read;
mod record;
mod render;
mod search;
mod write;

pub use check::{check, Checked};
pub use error::Error;
pub use generate::{generate, Report};
pub use generator::generator;
pub use problem::Problem;
pub use search::Search;

/// Functions for the fuzz targets of this repository. These functions are not part of the public API.
#[doc(hidden)]
pub mod testing {
    pub use crate::{
        model::{Message, Namespace, Package},
        render::files,
    };
}
