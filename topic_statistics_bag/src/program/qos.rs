// SPDX-License-Identifier: Apache-2.0

//! The QoS of publishers, from the YAML that rosbag2 writes.

use serde::Deserialize;

/// A policy: a number of `rmw/types.h` up to version 8 of the metadata, and then its name.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Policy {
    Number(u64),
    Name(String),
}

#[derive(Debug, Deserialize)]
struct Profile {
    history: Policy,
    depth: u64,
    reliability: Policy,
    durability: Policy,
}

impl Policy {
    /// Returns its name. `names` are those of the numbers from 0.
    fn name(&self, names: &[&str]) -> String {
        match self {
            Self::Name(name) => name.clone(),
            Self::Number(number) => {
                let name = usize::try_from(*number).ok().and_then(|number| names.get(number));
                name.copied().unwrap_or("unknown").to_owned()
            }
        }
    }
}

impl Profile {
    fn text(&self) -> String {
        let reliability = self.reliability.name(&[
            "system_default",
            "reliable",
            "best_effort",
            "unknown",
            "best_available",
        ]);
        let durability = self.durability.name(&[
            "system_default",
            "transient_local",
            "volatile",
            "unknown",
            "best_available",
        ]);
        let history = match self.history.name(&["system_default", "keep_last", "keep_all"]) {
            // Discovery does not tell the depth of a publisher.
            history if history == "keep_last" && self.depth > 0 => format!("{history} {}", self.depth),
            history => history,
        };
        format!("{reliability}, {durability}, {history}")
    }
}

/// Returns each profile once, as text. What is no QoS is left out.
pub fn texts(yaml: &[String]) -> Vec<String> {
    let profiles = |yaml: &String| yaml_serde::from_str::<Vec<Profile>>(yaml).unwrap_or_default();
    let mut texts: Vec<String> = yaml.iter().flat_map(profiles).map(|profile| profile.text()).collect();
    texts.sort();
    texts.dedup();
    texts
}

#[cfg(test)]
mod tests {
    use super::texts;

    #[test]
    fn policies_are_numbers_or_names() {
        let names =
            "- {history: keep_last, depth: 10, reliability: reliable, durability: volatile, other: {sec: 1}}";
        let numbers = r#"[{"history":1,"depth":0,"reliability":2,"durability":1},{"history":9,"depth":1,
            "reliability":77,"durability":2}]"#;
        let texts = texts(&[names, numbers, names, "no list", "[{}]"].map(str::to_owned));
        assert_eq!(
            texts,
            [
                "best_effort, transient_local, keep_last",
                "reliable, volatile, keep_last 10",
                "unknown, volatile, unknown"
            ]
        );
    }
}
