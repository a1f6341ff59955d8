// SPDX-License-Identifier: Apache-2.0

//! Names into every place that writes them.

#![cfg_attr(fuzzing, no_main)]
#![allow(missing_docs, unexpected_cfgs)]

fuzz::target!(fuzz::names);
