// SPDX-License-Identifier: Apache-2.0
//! Generates the Rust crates of installed ROS 2 interface packages, in the form that ros-env and rclrs use.
//!
//! The generator that distributions have from Lyrical on, rosidl_generator_rs, is a part of a package's own build.
//! This one works on installed packages, from what they install:
//!
//! - the *structure* of every type from its type description (`<interface>.json`, since ROS 2 Iron), from which the
//!   type's hash is computed: it has every bound, and every type that a service or an action implies;
//! - *constants* and *comments*, which the type description leaves out, from `<interface>.idl`, which every interface
//!   has.
//!
//! What the crates have to look like is the contract of ros-env 0.3 (its build script), of rosidl_runtime_rs 0.7
//! (its traits) and of rclrs 0.8 (what it uses of them).
//!
//! [`generate()`] writes crates, [`check()`] finds those that are missing or older than their definitions. Both work
//! on a [`Search`]:
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

/// What the fuzz targets of this repository call. It is no part of the API.
#[doc(hidden)]
pub mod testing {
    pub use crate::{
        model::{Message, Namespace, Package},
        render::files,
    };
}
