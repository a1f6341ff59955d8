// SPDX-License-Identifier: Apache-2.0

//! Describes the QoS of publishers, from the YAML text that rosbag2 writes.

use topic_statistics_observe::input::{read_yaml, text, value, Yaml};

/// Returns a QoS profile as readable text. `None` if the YAML is not a QoS profile.
fn profile_text(profile: &Yaml<'_>) -> Option<String> {
    // Up to version 8 of the metadata, a policy is a number from `rmw/types.h`. Later versions write its name.
    let policy = |name: &str, names: &[&str]| {
        let policy = value(profile, name).and_then(text)?;
        let name = match policy.parse::<usize>() {
            Ok(number) => names.get(number).copied().unwrap_or("unknown"),
            Err(_) => policy,
        };
        Some(name.to_owned())
    };
    let names = ["system_default", "reliable", "best_effort", "unknown", "best_available"];
    let reliability = policy("reliability", &names)?;
    let names = ["system_default", "transient_local", "volatile", "unknown", "best_available"];
    let durability = policy("durability", &names)?;
    let depth: u64 = value(profile, "depth").and_then(text)?.parse().ok()?;
    let history = match policy("history", &["system_default", "keep_last", "keep_all"])? {
        // DDS discovery does not transmit the depth of a publisher, so a depth of 0 is not shown.
        history if history == "keep_last" && depth > 0 => format!("{history} {depth}"),
        history => history,
    };
    Some(format!("{reliability}, {durability}, {history}"))
}

/// Returns the different QoS profiles as readable texts. A YAML text that is not a list of QoS profiles is left out.
pub fn texts(yaml: &[String]) -> Vec<String> {
    let profiles = |yaml: &String| -> Option<Vec<String>> {
        read_yaml(yaml).ok()?.as_sequence()?.iter().map(profile_text).collect()
    };
    let mut texts: Vec<String> = yaml.iter().filter_map(profiles).flatten().collect();
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
