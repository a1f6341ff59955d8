// SPDX-License-Identifier: Apache-2.0

//! Messages into the state of the exporter, and into the formats that it serves.

#![cfg_attr(fuzzing, no_main)]
#![allow(missing_docs, unexpected_cfgs)]

fuzz::target!(fuzz::exposition);
