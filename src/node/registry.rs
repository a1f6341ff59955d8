// SPDX-License-Identifier: Apache-2.0

//! A registry of handles by name: it returns the existing handle of a name, or creates the handle.

use std::sync::{Arc, Mutex, Weak};

use topic_statistics_core::mutex::lock;

pub(super) struct Registry<T>(Mutex<Vec<(String, Weak<T>)>>);

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Registry<T> {
    pub(super) fn get_or_create(&self, name: String, create: impl FnOnce(&str) -> Arc<T>) -> Arc<T> {
        let mut all = lock(&self.0);
        all.retain(|(_, one)| one.strong_count() > 0);
        if let Some(one) = all.iter().find(|(key, _)| *key == name).and_then(|(_, one)| one.upgrade()) {
            return one;
        }
        let new = create(&name);
        all.push((name, Arc::downgrade(&new)));
        new
    }
}
