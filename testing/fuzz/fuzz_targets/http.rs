// SPDX-License-Identifier: Apache-2.0

//! Bytes of a client into the HTTP side of the exporter.

#![cfg_attr(fuzzing, no_main)]
#![allow(missing_docs, unexpected_cfgs)]

fuzz::target!(fuzz::http);
