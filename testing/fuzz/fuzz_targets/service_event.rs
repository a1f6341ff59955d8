// SPDX-License-Identifier: Apache-2.0

//! Events of services and statuses of goals into `topic_monitor --services` and `--actions`.

#![cfg_attr(fuzzing, no_main)]
#![allow(missing_docs, unexpected_cfgs)]

fuzz::target!(fuzz::service_event);
