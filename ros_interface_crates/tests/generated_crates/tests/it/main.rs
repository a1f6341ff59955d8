// SPDX-License-Identifier: Apache-2.0
//! Tests of every interface of the prefix: its layout, a round trip to Python, and a round trip to JSON with serde.

mod layout;
mod rclpy;
mod round_trip;
mod with_serde;
