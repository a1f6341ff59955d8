// SPDX-License-Identifier: Apache-2.0

//! A world of hops. A hop is the path from a message that a process takes to the publication in the message's callback.
//! The threads of one process take messages and publish. The library does not see when a callback returns: it concludes
//! this from the other calls of the thread. The network loses messages, and the system clock is stepped.
//!
//! The oracle generates the threads' programs, so it knows the callback of each publication, and the cause that the
//! library must report by docs/any_node.md. The oracle keeps every publication of a window, and computes the window's
//! figures from all of them.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use fastrand::Rng;
use topic_statistics_core::{
    record::{
        cause::{Activity, Message},
        clock::Clock,
        hops::Hop,
        publisher_hops::{Marks, PublisherHops},
        source::WindowedCollector,
        windowed::Windowed,
    },
    Metric,
};

use crate::{
    check,
    clocks::{HostClocks, MS, S},
    equal::equal,
    faults::Tally,
    oracle::{Expected, Window, WindowTimes},
};

#[derive(Clone, Copy, Debug)]
enum Step {
    Take,
    /// Takes a message for a subscription whose callbacks are reported.
    TakeForCallback,
    /// Takes the feedback or the status of an action.
    TakeUnmeasured,
    Trigger,
    /// Starts the callback of the message taken last.
    StartCallback,
    /// Starts a callback of a timer or of an intra-process message.
    StartOther,
    /// Shows that a callback has ended: waits, ends a callback, calls a timer, takes a request, or finds nothing to
    /// take.
    Boundary,
    Publish(Truth),
}

#[derive(Clone, Copy, Debug)]
enum Truth {
    /// The cause of the publication is the message of the running callback.
    Message,
    Other,
    /// The cause is a message or nothing, and the library cannot know which.
    Unknown,
    /// The cause is one of the messages that the thread has taken since its last wait, and the library cannot know
    /// which.
    Taken,
}

pub struct World {
    random: Rng,
    clocks: Arc<HostClocks>,
    now: i64,
    topics: Vec<Topic>,
    threads: Vec<Thread>,
    marks: Arc<Marks>,
    publishers: Vec<Publisher>,
    has_distributions: bool,
    tally: Tally,
    history: Vec<String>,
}

struct Topic {
    /// The number of the topic's subscription; 0 for an unmeasured topic.
    number: u32,
    /// The clock of the publisher's host minus this host's clock. `None` if the middleware reports no source
    /// timestamps.
    ahead: Option<i64>,
    /// The source timestamps of the messages that wait to be taken.
    queue: VecDeque<i64>,
}

struct Thread {
    /// Whether rclcpp runs on the thread. Such a thread possibly never waits, so only tracepoints show which callback
    /// publishes.
    is_rclcpp: bool,
    activity: Activity,
    steps: VecDeque<Step>,
    taken: Option<Message>,
    called: Option<Message>,
    /// Whether the thread has taken a measured message since its last wait.
    has_measured: bool,
}

struct Publisher {
    hops: PublisherHops,
    /// The topics whose messages have caused a publication, in the order in which they caused their first one.
    seen: Vec<u32>,
    created: BTreeMap<u32, Created>,
}

struct Created {
    hop: Arc<Windowed<Hop>>,
    times: WindowTimes,
    /// The publications in this window: the message that caused the publication, and the publication's time. `None` if
    /// the cause is unknown.
    publications: Vec<Option<(Message, i64)>>,
    steps: Vec<FoundStep>,
    /// The monotonic time at which the library found the last step of the system clock.
    found: i64,
}

/// A step of the system clock. A stamp from the ten seconds before the step may come from the clock as it was before
/// the step. Such a stamp is not used for ten seconds after the step was found.
struct FoundStep {
    /// The time that the system clock would have shown when the step was found, if the clock had not been stepped.
    before: i64,
    until: i64,
}

/// The largest number of hops of a publisher, by docs/any_node.md.
const MOST_HOPS: usize = 8;
const UNDER_WAY: i64 = 10 * S;

impl World {
    const STEPS: u32 = 1500;

    pub fn new(seed: u64, world: u64) -> Self {
        let mut random = Rng::with_seed(seed.rotate_left(32) ^ world.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let clocks = HostClocks::new();
        let marks = Arc::<Marks>::default();
        let topics = (0..random.u32(2..13)).map(|number| Topic {
            number,
            ahead: (random.u8(..8) > 0).then(|| random.i64(-50..50) * MS * i64::from(random.bool())),
            queue: VecDeque::new(),
        });
        let topics = topics.collect();
        let publisher = |_| Publisher {
            hops: PublisherHops::new(Arc::clone(&marks)),
            seen: vec![],
            created: BTreeMap::new(),
        };
        let publishers = (0..random.u8(1..4)).map(publisher).collect();
        let threads = (0..random.u8(1..4)).map(|_| Thread::new(random.bool())).collect();
        let has_distributions = random.bool();
        let now = clocks.monotonic();
        let (tally, history) = (Tally::default(), vec![]);
        Self { random, clocks, now, topics, threads, marks, publishers, has_distributions, tally, history }
    }

    /// Runs the world to its end. Returns the counts, and the first difference from the oracle.
    pub fn run(mut self) -> (Tally, Result<(), String>) {
        let lived = (0..Self::STEPS).try_for_each(|_| self.step());
        let result = lived.map_err(|error| {
            let done = &self.history[self.history.len().saturating_sub(30)..];
            format!("hops, window {}: {error}\n  {}", self.tally.hops, done.join("\n  "))
        });
        (self.tally, result)
    }

    fn step(&mut self) -> Result<(), String> {
        self.now += self.random.i64(1..5 * MS);
        self.clocks.set_monotonic(self.now);
        let topic = self.random.usize(..self.topics.len());
        self.send(topic);
        match self.random.u16(..1000) {
            0..2 => {
                let by = self.random.i64(-20..20) * S + self.random.i64(MS..S);
                self.history.push(format!("the clock is stepped by {by} ns"));
                self.clocks.step(by);
            }
            2..10 => {
                self.now += self.random.i64(0..4 * S);
                self.clocks.set_monotonic(self.now);
            }
            10..40 => self.create()?,
            40..70 => {
                let index = self.random.usize(..self.publishers.len());
                self.end_window(index)?;
            }
            _ => {
                let index = self.random.usize(..self.threads.len());
                self.run_thread(index);
            }
        }
        Ok(())
    }

    fn send(&mut self, topic: usize) {
        let is_lost = self.random.u8(..5) == 0;
        let topic = &mut self.topics[topic];
        if !is_lost {
            topic.queue.push_back(topic.ahead.map_or(0, |ahead| self.clocks.system() + ahead));
        }
    }

    fn rclcpp_turn(&mut self) -> VecDeque<Step> {
        use Step::*;
        let random = &mut self.random;
        let mut steps = vec![];
        for _ in 0..random.u8(1..4) {
            // A take without a callback: rclcpp discards the copy of an intra-process message, or a program takes a
            // message itself.
            steps.extend((random.u8(..4) == 0).then_some(TakeForCallback));
            match random.u8(..8) {
                0 => {
                    steps.push(Boundary); // a wait, a request, or a timer of an executor that waits
                    publish(&mut steps, random, Truth::Other);
                }
                1 | 2 => {
                    steps.push(StartOther);
                    steps.extend(random.bool().then_some(TakeForCallback));
                    publish(&mut steps, random, Truth::Other);
                    steps.push(Boundary);
                }
                3 => {
                    steps.extend((0..random.u8(1..4)).map(|_| TakeUnmeasured));
                    publish(&mut steps, random, Truth::Other);
                }
                4 => {
                    // The callback throws, so rclcpp does not report its end before the next callback starts.
                    steps.extend([TakeForCallback, StartCallback, StartOther]);
                    publish(&mut steps, random, Truth::Other);
                    steps.push(Boundary);
                }
                _ => {
                    steps.extend([TakeForCallback, StartCallback]);
                    steps.extend((0..random.u8(..4)).map(|_| Trigger));
                    steps.extend((random.u8(..4) == 0).then_some(TakeForCallback));
                    publish(&mut steps, random, Truth::Message);
                    steps.push(Boundary);
                    publish(&mut steps, random, Truth::Other);
                }
            }
        }
        steps.into()
    }

    /// Returns the steps of a thread without tracepoints from one wait to the next.
    fn turn(&mut self) -> VecDeque<Step> {
        use Step::*;
        let random = &mut self.random;
        let mut steps = vec![Boundary];
        match random.u8(..5) {
            // rclpy triggers a guard condition before and after a callback. In the same round, a coroutine may
            // continue.
            0 => {
                for _ in 0..random.u8(1..4) {
                    steps.extend([Take, Trigger]);
                    publish(&mut steps, random, Truth::Message);
                    steps.push(Trigger);
                    publish(&mut steps, random, Truth::Unknown);
                }
            }
            // A worker of rclrs waits again after each message.
            1 => {
                steps.push(Take);
                publish(&mut steps, random, Truth::Message);
            }
            // A program takes several messages itself, so each of them may be the cause of what the program publishes.
            2 => {
                for _ in 0..random.u8(2..5) {
                    steps.push(Take);
                    steps.extend(random.bool().then_some(Trigger));
                }
                publish(&mut steps, random, Truth::Taken);
            }
            // A callback triggers guard conditions so often that the library cannot know whether this callback has
            // already returned.
            3 => {
                steps.extend([Take, Trigger, Trigger, Trigger]);
                publish(&mut steps, random, Truth::Unknown);
            }
            // A timer publishes, or a thread publishes without taking a message.
            _ => publish(&mut steps, random, Truth::Other),
        }
        steps.into()
    }

    fn run_thread(&mut self, index: usize) {
        if self.threads[index].steps.is_empty() {
            let is_rclcpp = self.threads[index].is_rclcpp;
            self.threads[index].steps = if is_rclcpp { self.rclcpp_turn() } else { self.turn() };
        }
        let Some(step) = self.threads[index].steps.pop_front() else { return };
        self.history.push(format!("{} ms: thread {index}: {step:?}", self.now / MS));
        let thread = &mut self.threads[index];
        match step {
            Step::Boundary => {
                thread.activity.end();
                thread.has_measured = false;
            }
            Step::Trigger => thread.activity.trigger(),
            Step::TakeUnmeasured => thread.activity.take(Message::UNMEASURED),
            Step::StartCallback => {
                thread.called = thread.taken;
                thread.activity.start_callback(thread.taken.map(subscription_number));
            }
            Step::StartOther => thread.activity.start_callback(None),
            Step::Take | Step::TakeForCallback => {
                let from = self.random.usize(..self.topics.len());
                while self.topics[from].queue.is_empty() {
                    self.send(from);
                }
                let topic = &mut self.topics[from];
                let source = topic.queue.pop_front().unwrap_or_default();
                let message = Message { topic: topic.number, source, taken: self.now };
                let thread = &mut self.threads[index];
                match step {
                    Step::Take => thread.activity.take(message),
                    _ => thread.activity.take_for_callback(message, subscription_number(message)),
                }
                thread.taken = Some(message);
                thread.has_measured |= message.topic != 0;
                self.tally.messages += 1;
            }
            Step::Publish(truth) => {
                let publisher_index = self.random.usize(..self.publishers.len());
                let publisher = &mut self.publishers[publisher_index];
                publisher.hops.record(thread.activity.cause(), self.now);
                let message = if thread.is_rclcpp { thread.called } else { thread.taken };
                match (truth, message) {
                    (Truth::Message, Some(message)) if message.topic != 0 => {
                        publisher.publish(message, self.now)
                    }
                    (Truth::Taken, _) if !thread.has_measured => {}
                    (Truth::Unknown | Truth::Taken, _) => {
                        publisher.created.values_mut().for_each(|hop| hop.publications.push(None))
                    }
                    _ => {}
                }
            }
        }
    }

    fn create(&mut self) -> Result<(), String> {
        let is_marked = self.marks.take();
        let (now, clocks) = (self.now, &self.clocks);
        for publisher in &mut self.publishers {
            let mut created = vec![];
            if is_marked {
                publisher.hops.create(|topic| {
                    let hop = Arc::new(Windowed::with_clock(Hop::default(), &**clocks));
                    hop.set_distributions(self.has_distributions);
                    hop.enable(&**clocks);
                    created.push((topic, Arc::clone(&hop)));
                    Some(hop)
                });
            }
            for (topic, hop) in created {
                let mut times = WindowTimes::new(clocks.offset(), 0);
                times.restart(now, clocks.offset(), 0);
                let new = Created { hop, times, publications: vec![], steps: vec![], found: i64::MIN };
                equal("hop of a topic", publisher.created.insert(topic, new).is_none(), true)?;
            }
            let mut expected: Vec<u32> = publisher.seen.iter().copied().take(MOST_HOPS).collect();
            expected.sort_unstable();
            equal("hops", publisher.created.keys().copied().collect(), expected)?;
            equal(
                "more hops than there is room for",
                publisher.hops.is_full(),
                publisher.seen.len() > MOST_HOPS,
            )?;
        }
        Ok(())
    }

    fn end_window(&mut self, index: usize) -> Result<(), String> {
        self.history.push(format!("{} ms: the windows of publisher {index} end", self.now / MS));
        for (topic, hop) in &mut self.publishers[index].created {
            if hop.times.start == self.now {
                continue;
            }
            let expected = hop.end_window(self.now, self.clocks.offset(), self.has_distributions);
            let ours = hop.hop.end_window(&*self.clocks).ok_or("no window")?.statistics;
            let any_length = 0; // this world has no schedule, so no length is compared
            let compared = check::window(&ours, &expected, any_length, &mut self.tally);
            compared.map_err(|error| format!("hop of publisher {index} from topic {topic}: {error}"))?;
            self.tally.hops += 1;
        }
        Ok(())
    }
}

/// Appends up to three steps that publish.
fn publish(steps: &mut Vec<Step>, random: &mut Rng, truth: Truth) {
    steps.extend((0..random.u8(..4)).map(|_| Step::Publish(truth)));
}

/// Returns the number of the subscription that took a message. Each topic has one subscription.
fn subscription_number(message: Message) -> usize {
    1000 + message.topic as usize
}

impl Thread {
    fn new(is_rclcpp: bool) -> Self {
        let (steps, taken, called, has_measured) = Default::default();
        Self { is_rclcpp, activity: Activity::NONE, steps, taken, called, has_measured }
    }
}

impl Publisher {
    fn publish(&mut self, message: Message, published: i64) {
        if !self.seen.contains(&message.topic) {
            self.seen.push(message.topic);
        }
        if let Some(hop) = self.created.get_mut(&message.topic) {
            hop.publications.push(Some((message, published)));
        }
    }
}

impl Created {
    fn end_window(&mut self, now: i64, offset: i64, has_distributions: bool) -> Window {
        let before = self.times.offset;
        let window = self.times.end(now, offset, 0);
        let step = window.step;
        let publications = std::mem::take(&mut self.publications);
        let is_known = step.is_none() && publications.iter().all(Option::is_some);
        let is_doubtful = |source: i64| {
            let mut stamps = self.steps.iter().map(|step| step.before - UNDER_WAY..=step.before);
            stamps.any(|stamps| stamps.contains(&source))
        };
        let sample = |(message, published): (Message, i64)| {
            let is_valid = message.source != 0 && message.taken > self.found && !is_doubtful(message.source);
            is_valid.then(|| (published + before - message.source) as f64 / 1e6)
        };
        let samples: Vec<f64> = publications.into_iter().flatten().filter_map(sample).collect();
        let samples = if is_known { samples } else { vec![] };
        self.steps.retain(|step| now <= step.until);
        if let Some(by) = step {
            self.steps.push(FoundStep { before: now + offset - by, until: now + UNDER_WAY });
            self.found = now;
        }
        let count = Some(samples.len() as u64);
        let metrics = vec![(Metric::InputToOutput, Expected::Samples(samples))];
        Window { count, metrics, has_distributions, ..window }
    }
}
