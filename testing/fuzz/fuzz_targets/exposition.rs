// SPDX-License-Identifier: Apache-2.0
#![cfg_attr(fuzzing, no_main)]
#![allow(missing_docs, unexpected_cfgs)]

fuzz::target!(fuzz::exposition);
