// SPDX-License-Identifier: Apache-2.0

//! Reads the QoS of publishers from the YAML text that rosbag2 writes.

use topic_statistics_observe::input::{read_yaml, text, value, Yaml};

/// Returns whether all publishers are transient local. False if the text names no publisher, or is not a QoS.
pub(crate) fn is_transient_local(yaml: &str) -> bool {
    /// The longest text that is read, in bytes: enough for about 100 publishers.
    const MAX: usize = 1 << 15;
    // Up to version 8 of the metadata, a policy is a number from `rmw/types.h`. Later versions write its name.
    let is_latched = |profile: &Yaml<'_>| {
        matches!(value(profile, "durability").and_then(text), Some("1" | "transient_local"))
    };
    let yaml = Some(yaml).filter(|yaml| yaml.len() <= MAX).and_then(|yaml| read_yaml(yaml).ok());
    let profiles = yaml.as_ref().and_then(|yaml| yaml.as_sequence());
    profiles.is_some_and(|profiles| !profiles.is_empty() && profiles.iter().all(is_latched))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_publishers_are_transient_local_in_either_form() {
        let names = |names: &[&str]| {
            let profile = |name: &&str| format!("- history: unknown\n  depth: 0\n  durability: {name}\n");
            names.iter().map(profile).collect::<String>()
        };
        assert!(is_transient_local(r#"[{"history":0,"depth":0,"reliability":1,"durability":1}]"#));
        assert!(is_transient_local(&names(&["transient_local", "transient_local"])));
        for other in ["", "[]", "no QoS", "- {durability: 2}", &names(&["transient_local", "volatile"])] {
            assert!(!is_transient_local(other), "{other}");
        }
    }
}
