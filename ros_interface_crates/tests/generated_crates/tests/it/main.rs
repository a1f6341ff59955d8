// SPDX-License-Identifier: Apache-2.0
//! Every interface of the prefix: its layout, its way to Python and back, its documentation.

mod documentation;
mod layout;
mod rclpy;
mod round_trip;
#[cfg(feature = "serde")]
mod serde;
mod with_serde;
