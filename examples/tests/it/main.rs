// SPDX-License-Identifier: Apache-2.0

//! The example programs as processes, on real topics.

mod bridge;
mod signals;
mod statistics;
