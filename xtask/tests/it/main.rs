// SPDX-License-Identifier: Apache-2.0

//! The automation itself: what it sets up, runs and ends, and the pages whose commands a user pastes.

mod colcon;
mod demo;
#[path = "../../../testing/test_support/src/domain.rs"]
mod domain;
mod environment;
mod setup;
