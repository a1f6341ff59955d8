// SPDX-License-Identifier: Apache-2.0
//! Every interface of the prefix: its layout, its way to Python and back, and with serde to JSON and back.

mod layout;
mod rclpy;
mod round_trip;
mod with_serde;
