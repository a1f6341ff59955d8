// SPDX-License-Identifier: Apache-2.0

//! Tests of the library on real topics, one module per subject. All modules are one program, because each program takes
//! seconds to link. No two tests share a ROS domain ([`test_support::domain`]).

mod bounds;
mod build_script;
mod bytes;
mod code;
mod compatibility;
mod conformance;
mod delays;
mod errors;
mod executor;
mod forms;
mod health;
mod healthy;
mod lifetime;
mod losses;
mod options;
mod parameters;
mod support;
mod time;
mod waiting;
mod windows;
