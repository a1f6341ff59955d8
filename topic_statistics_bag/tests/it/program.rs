// SPDX-License-Identifier: Apache-2.0

//! The program `bag_statistics` on bags that the tests write.

mod bag_file;
mod errors;
mod judged;
mod output;
mod read;
mod run;
mod terminal;
