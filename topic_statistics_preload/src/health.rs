// SPDX-License-Identifier: Apache-2.0

//! Judges sources by the file of expectations. The health of the sources appears on `/diagnostics`.

use std::{ffi::CString, path::Path};

use topic_statistics_core::{
    expectation_file::ExpectationFile,
    health::{Expectations, Names},
    pattern::Namespace,
    record::source::Source,
    schedule::{
        judges::{status, why_unjudged, Diagnosed},
        outbox::PublishError,
    },
    Escaped, Metric, SourceKind,
};

use crate::{
    abi::{DiagnosticArray, DiagnosticStatus, KeyValue, RosSequence},
    log::line,
    output::{string, text, Output},
};

pub struct Expected(ExpectationFile);

impl Expected {
    /// Reads the file. If the file cannot be used, logs the reason and returns `None`. In that case, no source is
    /// judged.
    pub fn read(path: &Path, namespace: &Namespace) -> Option<Self> {
        let file = ExpectationFile::read(path, namespace);
        file.map(Self).map_err(|why| line(format_args!("no health: TOPIC_STATISTICS_EXPECT {why}"))).ok()
    }

    /// Returns the metrics of a subscription: the `chosen` metrics, and the metrics that the conditions for the
    /// subscription need.
    pub fn metrics(&self, node: &str, topic: &str, chosen: &[Metric]) -> Vec<Metric> {
        let source = format!("{node}:{topic}");
        let names = Names { source: &source, plain_source: &source, topic: Some(topic), given: Some(topic) };
        let expected = self.0.source_expectations(names, SourceKind::Subscription);
        let needed = expected.as_ref().map(Expectations::metrics).into_iter().flatten();
        let needed = needed.filter(|metric| Metric::OF_SUBSCRIPTIONS.contains(metric));
        chosen.iter().copied().chain(needed).collect()
    }

    /// Returns the expectations of a new source; `None` if the source is not judged. If the file names this source in a
    /// condition that this process cannot judge, logs this condition.
    pub fn expectations(&self, source: &Source) -> Option<Expectations> {
        let (names, kind) = (source.names(), source.kind());
        for condition in self.0.named_conditions(names, kind) {
            if let Some(why) = why_unjudged(&condition, source) {
                let name = Escaped(&source.name);
                line(format_args!("{} of {name} is not judged: {why}", condition.requirement()));
            }
        }
        self.0.source_expectations(names, kind)
    }
}

pub fn publish(output: &Output, diagnosed: &[&Diagnosed]) -> Result<(), PublishError> {
    let own = diagnosed.iter().filter(|diagnosed| output.judges(&diagnosed.source));
    let statuses: Result<Vec<_>, _> = own.map(|diagnosed| Texts::new(diagnosed)).collect();
    let mut statuses = statuses?;
    if statuses.is_empty() {
        return Ok(());
    }
    statuses.sort_by(|one, other| one.name.cmp(&other.name));
    let values: Vec<Vec<KeyValue>> = statuses.iter().map(Texts::values).collect();
    let status: Vec<DiagnosticStatus> =
        statuses.iter().zip(&values).map(|(texts, values)| texts.status(values)).collect();
    output.publish_diagnostics(|stamp| DiagnosticArray {
        stamp,
        frame_id: string(c""),
        status: RosSequence::of(&status),
    })
}

/// The texts of a diagnostic status. Each text ends with NUL, as C requires.
struct Texts {
    level: u8,
    name: CString,
    message: CString,
    values: Vec<[CString; 2]>,
}

impl Texts {
    fn new(diagnosed: &Diagnosed) -> Result<Self, PublishError> {
        let Diagnosed { source, judge, .. } = diagnosed;
        let node = source.name.split(':').next().and_then(|node| node.rsplit('/').next());
        let status = status(node.unwrap_or_default(), source, judge);
        let values = status.values.iter().map(|(key, value)| Ok([text(key)?, text(value)?]));
        Ok(Self {
            level: status.level as u8,
            name: text(&status.name)?,
            message: text(&status.message)?,
            values: values.collect::<Result<_, PublishError>>()?,
        })
    }

    fn values(&self) -> Vec<KeyValue> {
        self.values.iter().map(|[key, value]| KeyValue { key: string(key), value: string(value) }).collect()
    }

    fn status(&self, values: &[KeyValue]) -> DiagnosticStatus {
        DiagnosticStatus {
            level: self.level,
            name: string(&self.name),
            message: string(&self.message),
            hardware_id: string(c"none"), // diagnostic_updater's value for no device
            values: RosSequence::of(values),
        }
    }
}
