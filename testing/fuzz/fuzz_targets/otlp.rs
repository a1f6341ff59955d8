// SPDX-License-Identifier: Apache-2.0

//! Answers of an OpenTelemetry collector into the push side of the exporter.

#![cfg_attr(fuzzing, no_main)]
#![allow(missing_docs, unexpected_cfgs)]

fuzz::target!(fuzz::otlp);
