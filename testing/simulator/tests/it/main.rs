// SPDX-License-Identifier: Apache-2.0

//! The simulator as a process.

mod simulated_windows;
