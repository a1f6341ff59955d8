// SPDX-License-Identifier: Apache-2.0

//! Samples into the collectors.

#![cfg_attr(fuzzing, no_main)]
#![allow(missing_docs, unexpected_cfgs)]

fuzz::target!(fuzz::collectors);
