// SPDX-License-Identifier: Apache-2.0

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::Path,
    sync::Arc,
};

use serde_json::Value;

/// The log of a process. It survives SIGKILL.
#[derive(Clone)]
pub struct Log(Arc<File>);

impl Log {
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self(Arc::new(OpenOptions::new().create(true).append(true).open(path)?)))
    }

    pub fn write(&self, line: &Value) {
        (&*self.0).write_all(format!("{line}\n").as_bytes()).expect("the log cannot be written");
    }
}
