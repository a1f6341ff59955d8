// SPDX-License-Identifier: Apache-2.0

//! The names of a node's sources. At any time, all sources of a node have different names.

use std::{
    collections::{hash_map::DefaultHasher, BTreeSet},
    fmt,
    hash::{Hash, Hasher},
    ops::Deref,
    sync::Arc,
};

use crate::{mutex::lock, sync::Mutex};

/// The names that a node's sources have now, without the node's name, as hashes of eight bytes. If two names have the
/// same hash, the second name gets a number.
#[derive(Default)]
pub struct SourceNames(Mutex<BTreeSet<u64>>);

/// The name of a source, as in `measurement_source_name`. A `UniqueName` dereferences to this text.
///
/// A node may subscribe and publish the same topic, subscribe twice to a topic, or use one name for a stopwatch and a
/// counter. The first of these sources has the plain name. Each further source has the lowest free number, for example
/// `/relay:/imu (2)`. No ROS name has a space or a parenthesis, so a number cannot be mistaken for a part of a ROS
/// name. A source that replaces an ended source gets the same name.
#[derive(Debug)]
pub struct UniqueName {
    /// The name with its number.
    name: Box<str>,
    /// The length of the node's name with the colon after it, at the start of `name`; 0 if `name` does not start with
    /// the node's name.
    node: u32,
    /// The length of the number at the end of `name`.
    number: u16,
    /// Whether the source is shown under the node's name without the namespace.
    is_shown_as_node: bool,
    /// The set of names in which this name is reserved; `None` if it is not reserved.
    reserved_in: Option<Arc<SourceNames>>,
}

impl SourceNames {
    /// Returns the name of a new source of the node. If another source already has the name, a number is added to the
    /// name.
    pub fn reserve(self: &Arc<Self>, node: &str, name: &str) -> UniqueName {
        let task = name.strip_prefix(node).and_then(|rest| rest.strip_prefix(':')).unwrap_or(name);
        let mut taken = lock(&self.0);
        let (mut suffix, mut number) = (String::new(), 1_u64);
        while !taken.insert(hash(&[task, &suffix].concat())) {
            number += 1;
            suffix = format!(" ({number})");
        }
        UniqueName {
            node: (name.len() - task.len()) as u32,
            number: suffix.len() as u16,
            name: [name, &suffix].concat().into(),
            is_shown_as_node: false,
            reserved_in: Some(Arc::clone(self)),
        }
    }
}

fn hash(task: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    task.hash(&mut hasher);
    hasher.finish()
}

impl UniqueName {
    /// Returns this name, but from now on it is shown as the node's name without the namespace. The shown name is the
    /// same for all sources of the node.
    pub fn shown_as_node(self) -> Self {
        Self { is_shown_as_node: true, ..self }
    }

    /// Returns the name without its number.
    pub fn plain(&self) -> &str {
        if self.is_shown_as_node {
            return self;
        }
        &self.name[..self.name.len() - usize::from(self.number)]
    }

    /// Returns the unique name of the source within its node: the name without the node's name.
    pub fn task(&self) -> &str {
        &self.name[self.node as usize..]
    }

    /// Frees the name for another source. Must be called only once.
    pub(super) fn release(&self) {
        if let Some(names) = &self.reserved_in {
            lock(&names.0).remove(&hash(self.task()));
        }
    }
}

/// Creates a name that is not reserved.
impl From<String> for UniqueName {
    fn from(name: String) -> Self {
        Self { name: name.into(), node: 0, number: 0, is_shown_as_node: false, reserved_in: None }
    }
}

impl fmt::Display for UniqueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl Deref for UniqueName {
    type Target = str;

    fn deref(&self) -> &str {
        if !self.is_shown_as_node {
            return &self.name;
        }
        let node = &self.name[..(self.node as usize).saturating_sub(1)];
        node.rsplit_once('/').map_or(node, |(_, name)| name)
    }
}

opaque_debug!(SourceNames);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_have_the_lowest_free_numbers() {
        let names = Arc::new(SourceNames::default());
        let reserve = |name: &str| names.reserve("/relay", name);
        let [first, second, third] = ["/relay:/imu"; 3].map(reserve);
        let reserved = [&*first, &*second, &*third, &*reserve("/relay:/scan")];
        assert_eq!(reserved, ["/relay:/imu", "/relay:/imu (2)", "/relay:/imu (3)", "/relay:/scan"]);
        for created_again in [second, first, third] {
            created_again.release();
            assert_eq!(&*reserve("/relay:/imu"), &*created_again, "the new source has the free name");
        }
    }

    #[test]
    fn a_number_is_not_a_name_that_a_source_has_already() {
        let names = Arc::new(SourceNames::default());
        let of_user = names.reserve("/relay", "/relay:frames (2)");
        let [first, second] = [(); 2].map(|()| names.reserve("/relay", "/relay:frames"));
        let all = [&*of_user, &*first, &*second];
        assert_eq!(all, ["/relay:frames (2)", "/relay:frames", "/relay:frames (3)"]);
        assert_eq!((of_user.plain(), second.plain()), ("/relay:frames (2)", "/relay:frames"));
    }

    /// With `SourceName::Node`, all sources of a node are shown under the same name, as in rclcpp. Their names within
    /// the node, which rclcpp does not have, get numbers.
    #[test]
    fn a_name_that_is_shown_as_another_has_a_task_of_its_own() {
        let names = Arc::new(SourceNames::default());
        let reserve = |name: &str| names.reserve("/r1/relay", name);
        let of_node = || reserve("/r1/relay:/imu").shown_as_node();
        let [first, second] = [of_node(), of_node()];
        assert_eq!((&*first, &*second), ("relay", "relay"));
        assert_eq!((first.task(), second.task()), ("/imu", "/imu (2)"));
        assert_eq!(reserve("front imu").task(), "front imu");
    }
}
