// SPDX-License-Identifier: Apache-2.0

//! The clocks of this host and of simulations.

pub mod clock;
pub mod host;
pub mod simulated_time;
pub(crate) mod stamp_filter;
#[cfg(test)]
pub(crate) mod test_clock;
