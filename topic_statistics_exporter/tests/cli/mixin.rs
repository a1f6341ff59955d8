// SPDX-License-Identifier: Apache-2.0

//! Checks that the files in `grafana/` are the rendered mixin, and that each alert has a runbook.

use std::{collections::BTreeSet, fs, process::Command};

use serde_json::Value;

use crate::{common::folder, otlp::python_packages};

/// Renders the mixin with go-jsonnet. Returns the content of each file, or `None` if go-jsonnet cannot be installed.
fn rendered() -> Option<serde_json::Map<String, Value>> {
    let packages = python_packages("gojsonnet")?;
    let program = "import _gojsonnet; \
                   print(_gojsonnet.evaluate_snippet('mixin', '(import \"mixin.libsonnet\").rendered'))";
    let output = Command::new("python3")
        .args(["-c", program])
        .env("PYTHONPATH", packages)
        .current_dir(folder("grafana"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// With the environment variable TOPIC_STATISTICS_RENDER=1, this test writes the files.
#[test]
fn the_files_of_the_mixin_are_rendered() {
    let Some(rendered) = rendered() else {
        return test_support::skip("the mixin", "gojsonnet cannot be installed from PyPI");
    };
    assert_eq!(rendered.keys().collect::<Vec<_>>(), ["alerts.yml", "rules.yml"]);
    for (name, content) in rendered {
        let (path, content) = (folder("grafana").join(&name), content.as_str().unwrap().to_owned());
        if std::env::var_os("TOPIC_STATISTICS_RENDER").is_some() {
            fs::write(&path, &content).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), content, "{name} is not what mixin.libsonnet renders");
    }
}

/// Returns the names and severities of all alerts.
pub fn alerts() -> Vec<(String, String)> {
    let text = fs::read_to_string(folder("grafana/alerts.yml")).unwrap();
    let value = |text: &str, key: &str| {
        let (_, rest) = text.split_once(key).unwrap();
        rest.lines().next().unwrap().trim_matches('"').to_owned()
    };
    let alerts = text.split("- alert: ").skip(1);
    let alerts = alerts.map(|alert| (value(&format!("\n{alert}"), "\n"), value(alert, "severity: ")));
    alerts.collect::<BTreeSet<_>>().into_iter().collect()
}

#[test]
fn each_alert_has_a_runbook_and_a_severity_that_says_who_acts() {
    let runbooks = fs::read_to_string(folder("docs/alerts.md")).unwrap();
    let headings: Vec<_> = runbooks.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let alerts = alerts();
    assert!(alerts.len() >= 20, "{alerts:?}");
    for (name, severity) in &alerts {
        assert!(headings.contains(&&**name), "docs/alerts.md has no runbook of {name}");
        assert!(["page", "ticket"].contains(&&**severity), "{name} is {severity}");
    }
    for heading in headings {
        assert!(alerts.iter().any(|(name, _)| name == heading), "{heading} is no alert");
    }
    let inhibition = fs::read_to_string(folder("grafana/alertmanager.yml")).unwrap();
    let names = inhibition
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| word.starts_with("TopicStatistics"));
    for name in names.filter(|name| *name != "TopicStatistics") {
        assert!(alerts.iter().any(|(alert, _)| alert == name), "alertmanager.yml names {name}");
    }
}
