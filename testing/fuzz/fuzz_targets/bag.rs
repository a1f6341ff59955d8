// SPDX-License-Identifier: Apache-2.0

//! Files into the reader of bags.

#![cfg_attr(fuzzing, no_main)]
#![allow(missing_docs, unexpected_cfgs)]

fuzz::target!(fuzz::bag);
