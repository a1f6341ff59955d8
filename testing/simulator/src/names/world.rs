// SPDX-License-Identifier: Apache-2.0

//! A world of one node, whose sources have equal names.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use fastrand::Rng;
use topic_statistics_core::{
    collector::FirstPeriod,
    condition::Condition,
    health::{Expectations, Level, NodeExpectations},
    record::{
        clock::Clock,
        options::{SourceDefaults, SourceOptions},
        recorder::{Recorder, RecorderOptions},
        source::{Source, SourceHandle, WindowScheduler},
        source_name::{SourceNames, UniqueName},
    },
    schedule::{
        judges::{Changed, Diagnosed},
        losses::LossEvents,
        outbox::Failures,
        state::{Action, Schedule},
    },
    source_kind::SourceKind,
    Metric, WindowStatistics,
};

use super::source::{conditions, Named, Naming, Rule, Rules, KINDS, NODE, RULES, TOPIC};
use crate::{
    clocks::{HostClocks, MS, S},
    equal::{ensure, equal},
    measured::Measured,
    world::readers::{Figures, Published, Reader, Retired},
};

pub struct World {
    random: Rng,
    clocks: Arc<HostClocks>,
    started: Instant,
    now: i64,
    schedule: Schedule,
    wake: i64,
    names: Arc<SourceNames>,
    reader: Arc<Reader>,
    retired: Arc<Retired>,
    sources: Vec<Named>,
    created: u64,
    /// The node's conditions, and whether it expects messages for every subscription.
    rules: Rules,
    expects_messages: bool,
    /// For each source name, the number of messages that its subscriptions have received.
    received: BTreeMap<String, u64>,
    windows: u64,
    /// The changes of this world so far, as text for the report of a failure.
    history: Vec<String>,
}

impl World {
    const SECONDS: i64 = 20;
    /// The period of the samples.
    const TICK: i64 = 100 * MS;
    const MOST: usize = 10;

    pub fn new(seed: u64, world: u64) -> Self {
        let mut random = Rng::with_seed(!seed ^ world.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let clocks = HostClocks::new();
        let now = clocks.monotonic();
        let expects_messages = random.u8(..4) == 0;
        let events = LossEvents::new(NODE.to_owned(), 0.0);
        let mut schedule = Schedule::new(SourceDefaults::default(), false, events);
        schedule.judge_by(NodeExpectations::new(expects_messages.then(Expectations::new)), true);
        Self {
            random,
            clocks,
            started: Instant::now(),
            now,
            schedule,
            wake: now,
            names: Arc::default(),
            reader: Arc::default(),
            retired: Arc::default(),
            sources: vec![],
            created: 0,
            rules: Rules::default(),
            expects_messages,
            received: BTreeMap::new(),
            windows: 0,
            history: vec![],
        }
    }

    /// Runs the world to its end. Returns the number of compared windows, and the first difference from the oracle.
    pub fn run(mut self) -> (u64, Result<(), String>) {
        let lived = self.live();
        let result = lived.map_err(|error| {
            let done = &self.history[self.history.len().saturating_sub(15)..];
            let live: Vec<_> =
                self.sources.iter().map(|source| format!("{} {}", source.kind, source.task)).collect();
            let (window, time) = (self.windows, (self.now - 1000 * S) as f64 / 1e9);
            format!(
                "equal names: window {window}, at {time:.3} s: {error}\n  {}\n  sources now: {}",
                done.join("\n  "),
                live.join(", ")
            )
        });
        (self.windows, result)
    }

    fn live(&mut self) -> Result<(), String> {
        let end = self.now + Self::SECONDS * S;
        while self.now < end {
            let tick = self.now + Self::TICK;
            if self.random.u8(..3) == 0 {
                let time = self.now + self.random.i64(0..Self::TICK);
                self.run_until(time)?;
                self.change()?;
            }
            self.run_until(tick)?;
            for source in &mut self.sources {
                (0..self.random.u8(1..4)).for_each(|_| source.record(&self.clocks));
            }
        }
        self.check_totals()
    }

    fn instant(&self) -> Instant {
        self.started + Duration::from_nanos((self.now - 1000 * S) as u64)
    }

    fn run_until(&mut self, end: i64) -> Result<(), String> {
        while self.wake <= end {
            self.now = self.wake.max(self.now);
            self.clocks.set_monotonic(self.now);
            self.run_thread()?;
        }
        self.now = end;
        self.clocks.set_monotonic(end);
        Ok(())
    }

    fn run_thread(&mut self) -> Result<(), String> {
        loop {
            match self.schedule.next(self.instant(), &*self.clocks) {
                Action::HandOut(out) => {
                    for (source, window) in out.finished {
                        self.check_window(&source, &window)?;
                        source.finish(window);
                    }
                    out.changed.iter().try_for_each(|changed| self.check_level(changed))?;
                }
                Action::Publish { batch, .. } => {
                    batch.into_iter().for_each(|message| message.publish(&mut Failures::default()));
                    for message in self.reader.take() {
                        self.check_message(&message)?;
                    }
                }
                Action::PublishDiagnostics(diagnosed) => self.check_diagnostics(&diagnosed)?,
                Action::CheckPublishers(_) => self.schedule.add_publisher_check(vec![], None),
                Action::Wait(wake) => {
                    let from_start = |wake: Instant| wake.saturating_duration_since(self.started).as_nanos();
                    self.wake =
                        wake.map_or(i64::MAX, |wake| (1000 * S + from_start(wake) as i64).max(self.now + 1));
                    return Ok(());
                }
                Action::End { .. } => return Err("the schedule is closed".to_owned()),
            }
        }
    }

    fn change(&mut self) -> Result<(), String> {
        match self.random.u8(..8) {
            0..=3 if self.sources.len() < Self::MOST => {
                let fails = self.random.u8(..6) == 0;
                self.create(fails)?;
            }
            4..=6 if !self.sources.is_empty() => self.drop_one()?,
            _ => self.expect()?,
        }
        self.wake = self.now;
        self.check_totals()
    }

    /// Creates a source. If `fails` is true, the creation fails after the library has reserved the name.
    fn create(&mut self, fails: bool) -> Result<(), String> {
        let kind = KINDS[self.random.usize(..4)];
        let naming = match (kind, self.random.u8(..6)) {
            (SourceKind::Stopwatch | SourceKind::Counter, number) => Naming::OfNode(
                [TOPIC, "frames", "frames", "frames (2)", "frames", "front_imu"][usize::from(number)],
            ),
            (_, 0) => Naming::Node(TOPIC),
            (_, 1) => Naming::Custom("front_imu"),
            (_, 2) => Naming::Custom("/relay:/imu"),
            _ => Naming::OfNode(TOPIC),
        };
        // `NodeStatistics` reserves names in the same way.
        let reserve = |name: &str| self.names.reserve(NODE, name);
        let name: UniqueName = match naming {
            Naming::OfNode(name) => reserve(&format!("{NODE}:{name}")),
            Naming::Node(name) => reserve(&format!("{NODE}:{name}")).shown_as_node(),
            Naming::Custom(name) => reserve(name),
        };
        // The expected name follows from the table of source names in docs/statistics.md.
        let (base, prefix) = match naming {
            Naming::OfNode(name) | Naming::Node(name) => (name, "/relay:"),
            Naming::Custom("/relay:/imu") => (TOPIC, "/relay:"),
            Naming::Custom(name) => (name, ""),
        };
        let is_free = |number: &String| {
            let task = format!("{base}{number}");
            self.sources.iter().all(|source| source.task != task)
        };
        let numbers = (1..).map(|number| if number == 1 { String::new() } else { format!(" ({number})") });
        let number = numbers.into_iter().find(is_free).ok_or("no number is free")?;
        let task = format!("{base}{number}");
        let shown = match naming {
            Naming::Node(_) => "relay".to_owned(),
            _ => format!("{prefix}{task}"),
        };
        self.history.push(format!("{kind} of {naming:?}, expected {shown}, {task}; fails: {fails}"));
        equal("name and task", (&*name, name.task()), (&*shown, &*task))?;
        let metrics = [Metric::MessageAge, Metric::PublicationSeqGap, Metric::MessageSize];
        let options = RecorderOptions::new().metrics(metrics);
        let recorder = || Recorder::new(TOPIC, options, None, &*self.clocks);
        let (collector, measured) = Measured::new(kind, FirstPeriod::NoSample, recorder);
        let publisher = Some(Arc::clone(&self.reader) as _);
        let now = self.instant();
        self.schedule.add(&collector, SourceOptions::default(), publisher, now, &*self.clocks);
        let check = (kind == SourceKind::Subscription).then(|| Box::new(TOPIC.to_owned()) as _);
        let source = Source::new(name, Arc::clone(&collector), check);
        if fails {
            self.schedule.abandon(&collector);
            return Ok(());
        }
        let source = Arc::new(match kind {
            SourceKind::Publisher => source.of_topic(TOPIC.to_owned(), TOPIC),
            _ => source,
        });
        let scheduler = Arc::downgrade(&self.retired) as Weak<dyn WindowScheduler>;
        let handle = SourceHandle::new(Arc::clone(&source), scheduler);
        self.schedule.complete(&source, now);
        if kind == SourceKind::Subscription {
            self.received.entry(shown.clone()).or_default();
        }
        self.created += 1;
        let is_ill = self.random.u8(..4) == 0;
        let well = 1.0 + self.created as f64 * 0.001;
        let mark = match (is_ill, kind) {
            (false, _) => well,
            (true, SourceKind::Subscription) => 150.0 + well,
            (true, _) => 6.0 + well,
        };
        let mut named = Named {
            naming,
            kind,
            task,
            number,
            shown,
            mark,
            counts: self.created,
            is_ill,
            measured,
            source,
            handle,
            samples: 0,
            messages: 0,
            ended: self.now,
            unpublished: None,
            rules: Rules::default(),
            judged: 0,
        };
        named.rules = named.matching_rules(&self.rules);
        self.sources.push(named);
        Ok(())
    }

    /// Drops a source. Sometimes another source is created before the schedule removes the dropped source.
    fn drop_one(&mut self) -> Result<(), String> {
        let Named { handle, task, kind, shown, messages, .. } =
            self.sources.remove(self.random.usize(..self.sources.len()));
        self.history.push(format!("drop of the {kind} {task}"));
        if let Some(received) = self.received.get_mut(&shown).filter(|_| kind == SourceKind::Subscription) {
            *received += messages;
        }
        drop(handle);
        let created = if self.random.bool() { self.create(false) } else { Ok(()) };
        for source in self.retired.take() {
            self.schedule.remove(&source);
        }
        created
    }

    /// Sets new conditions of the node, in the same way as when the node's parameter is changed.
    fn expect(&mut self) -> Result<(), String> {
        let index = self.random.usize(..2);
        let level = [Level::Error, Level::Warn][index];
        let rules: Vec<_> =
            (0..self.random.u8(..5)).map(|_| &RULES[self.random.usize(..RULES.len())]).collect();
        let conditions = conditions(&rules)?;
        // As docs/health.md says, a condition is refused if no source with its name measures its metric.
        let is_about = |rule: &Rule, source: &Named| match rule.topic {
            Some(name) => source.has_name(name),
            None => source.kind == SourceKind::Subscription,
        };
        let is_refused = rules.iter().any(|rule| {
            let mut named = self.sources.iter().filter(|source| is_about(rule, source)).peekable();
            named.peek().is_some() && !named.any(|source| rule.kinds.contains(&source.kind))
        });
        let texts: Vec<_> = rules.iter().map(|rule| rule.condition).collect();
        self.history.push(format!("{level} unless {texts:?}; refused: {is_refused}"));
        let checked = self.schedule.check_measured(&conditions);
        ensure(checked.is_err() == is_refused, || format!("refused: {checked:?}, expected {is_refused}"))?;
        if is_refused {
            return Ok(());
        }
        self.schedule.set_conditions(level, conditions);
        self.rules[index] = rules;
        for source in &mut self.sources {
            let rules = source.matching_rules(&self.rules);
            let texts = |rules: &Rules| {
                rules
                    .each_ref()
                    .map(|level_rules| level_rules.iter().map(|rule| rule.condition).collect::<Vec<_>>())
            };
            if texts(&rules) != texts(&source.rules) {
                (source.rules, source.judged) = (rules, 0);
            }
        }
        Ok(())
    }

    fn find(&mut self, source: &Arc<Source>) -> Result<&mut Named, String> {
        let found = self.sources.iter_mut().find(|named| Arc::ptr_eq(&named.source, source));
        found.ok_or_else(|| format!("{} is dropped", source.name.task()))
    }

    fn check_window(&mut self, source: &Arc<Source>, window: &WindowStatistics) -> Result<(), String> {
        let (now, expects_messages) = (self.now, self.expects_messages);
        let named = self.find(source)?;
        let metric = named.metric();
        let samples = std::mem::take(&mut named.samples);
        let ours = window.get(metric);
        ensure(ours.is_some_and(|summary| named.is_its_own(summary, samples)), || {
            format!("the window of {} has {ours:?}, expected {samples} samples of {}", named.task, named.mark)
        })?;
        equal("samples that were not published", named.unpublished.replace(samples), None)?;
        named.ended = now;
        named.judged += u32::from(named.is_judged(expects_messages));
        self.windows += 1;
        let late = self.sources.iter().find(|named| now - named.ended > 2 * S + Self::TICK);
        late.map_or(Ok(()), |named| Err(format!("{} has no window", named.task)))
    }

    fn check_level(&mut self, changed: &Changed) -> Result<(), String> {
        if changed.health.window.is_none() {
            return Ok(()); // the health was reset, because the judge restarts
        }
        let named = &*self.find(&changed.source)?;
        let Named { kind, task, judged, .. } = named;
        let (ours, expected) = (&changed.health, named.level());
        ensure(*judged > 0 && ours.level == expected, || {
            format!("the {kind} {task} is {}: {ours}; expected {expected} after {judged} windows", ours.level)
        })
    }

    fn check_diagnostics(&mut self, diagnosed: &[Diagnosed]) -> Result<(), String> {
        for Diagnosed { source, judge, .. } in diagnosed {
            let named = self.find(source)?;
            equal("task of a status", source.name.task(), &named.task)?;
            let [errors, warnings] = named.rules.each_ref().map(|rules| conditions(rules));
            let expected = [errors?, warnings?].concat();
            let ours: Vec<_> = judge.conditions().map(|judged| judged.condition.clone()).collect();
            let texts = |conditions: &[Condition]| {
                conditions.iter().map(|condition| format!("{condition}; ")).collect::<String>()
            };
            ensure(ours == expected, || {
                let (ours, expected) = (texts(&ours), texts(&expected));
                format!("the {} {} is judged by {ours}expected {expected}", named.kind, named.task)
            })?;
        }
        let expected = self.sources.iter().filter(|named| named.is_judged(self.expects_messages)).count();
        equal("number of judged sources", diagnosed.len(), expected)
    }

    /// Checks a message on /statistics. Its reader knows only the source name, so the message may be of any source with
    /// this name.
    fn check_message(&mut self, message: &Published) -> Result<(), String> {
        let Published { source, metric, .. } = message;
        let Figures::Summary(summary) = &message.figures else { return Err("a distribution".to_owned()) };
        let of_name = || self.sources.iter().filter(|named| named.shown == *source);
        equal("number of sources of a message's name", of_name().count().min(1), 1)?;
        if of_name().all(|named| named.metric() != *metric) {
            return Ok(());
        }
        let is_its_own = |named: &&mut Named| {
            named.shown == *source
                && named.metric() == *metric
                && named.unpublished.is_some_and(|samples| named.is_its_own(summary, samples))
        };
        let named = self.sources.iter_mut().find(is_its_own);
        named.ok_or_else(|| format!("of no source of that name: {message:?}"))?.unpublished = None;
        Ok(())
    }

    fn check_totals(&self) -> Result<(), String> {
        let mut ours = BTreeMap::<String, u64>::new();
        for topic in self.schedule.totals() {
            *ours.entry(topic.source_name).or_default() += topic.totals.received;
        }
        let mut expected = self.received.clone();
        for named in self.sources.iter().filter(|named| named.kind == SourceKind::Subscription) {
            *expected.entry(named.shown.clone()).or_default() += named.messages;
        }
        equal("received", ours, expected)
    }
}
