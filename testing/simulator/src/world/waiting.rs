// SPDX-License-Identifier: Apache-2.0

//! The node's service, client, timer, action server and action client.

use std::sync::Arc;

use topic_statistics_core::{
    collector::FirstPeriod,
    record::{
        calls::CallRecorder,
        goals::GoalRecorder,
        requests::RequestRecorder,
        source::WindowedCollector,
        timer_calls::{TimerCalls, TimerClock},
        timer_schedule::{TimerReading, TimerSchedule},
        windowed::Windowed,
    },
    SourceKind,
};

use super::{
    goals::Goals,
    sources::{Measured, Timer, UnderWay, Waiting, Watched},
    state::{Event, World},
};
use crate::{clocks::MS, equal::equal, oracle::Kind};

impl World {
    pub fn add_waiting(&mut self) {
        let is_async = self.random.bool();
        let timer_period = self.random.i64(MS..self.period.max(2 * MS));
        for kind in [
            Kind::Service { is_async },
            Kind::Client,
            Kind::Timer(timer_period),
            Kind::ActionServer,
            Kind::ActionClient,
        ] {
            let all = |kind: SourceKind| kind.metrics().iter().collect();
            let (name, measured, collector): (_, _, Arc<dyn WindowedCollector>) = match kind {
                Kind::Service { is_async } => {
                    let metrics = RequestRecorder::metrics(is_async);
                    let recorder = RequestRecorder::new(metrics, FirstPeriod::NoSample, is_async);
                    let collector = Arc::clone(&recorder.requests);
                    ("service", Measured::Service(recorder, vec![]), collector)
                }
                Kind::Client => {
                    let recorder = CallRecorder::new(all(SourceKind::Client));
                    let collector = Arc::clone(&recorder.calls);
                    ("client", Measured::Client(recorder, vec![]), collector)
                }
                Kind::ActionServer => {
                    let recorder = GoalRecorder::new(all(SourceKind::ActionServer));
                    let collector = Arc::clone(&recorder.goals);
                    ("action_server", Measured::ActionServer(Goals::new(recorder)), collector)
                }
                Kind::ActionClient => {
                    let recorder = GoalRecorder::new(all(SourceKind::ActionClient));
                    let collector = Arc::clone(&recorder.goals);
                    ("action_client", Measured::ActionClient(Goals::new(recorder)), collector)
                }
                Kind::Timer(period) => {
                    let (metrics, first) = (all(SourceKind::Timer), FirstPeriod::NoSample);
                    let calls = TimerCalls::new(metrics, first, TimerClock::Steady, period);
                    let calls = Arc::new(Windowed::new(calls));
                    let collector = Arc::clone(&calls);
                    let schedule = TimerSchedule::new(period).expect("a period above 0");
                    let (last, next) = (self.now, self.now + period);
                    let timer = Timer { calls, schedule, period, last, next, is_followed: true };
                    ("timer", Measured::Timer(Box::new(timer)), collector)
                }
                other => unreachable!("{other:?}"),
            };
            let watched = self.watch(name, collector, kind);
            self.waiting.push(Waiting { watched, measured });
        }
    }

    /// Lets the service, client, timer, action server and action client do one random action each.
    pub fn run_waiting(&mut self) -> Result<(), String> {
        let (now, random) = (self.now, &mut self.random);
        let clock = || now;
        let mut differs = false;
        for Waiting { watched: Watched { oracle, .. }, measured } in &mut self.waiting {
            match measured {
                Measured::Service(recorder, requests) => match random.u32(..4) {
                    0 => {
                        let request = recorder.take(|| (0, 0));
                        differs |= request.is_some() != oracle.is_enabled;
                        if request.is_some() {
                            oracle.begin(now);
                        }
                        requests.push(UnderWay { request, taken: now, started: None });
                    }
                    1 => {
                        if let Some(under_way) =
                            requests.iter_mut().find(|under_way| under_way.started.is_none())
                        {
                            under_way.started = Some(now);
                            if let Some(request) = &mut under_way.request {
                                request.start(clock);
                                oracle.start(now);
                            }
                        }
                    }
                    _ if requests.is_empty() => {}
                    _ => {
                        // Requests end in random order, some without a response.
                        let UnderWay { request, taken, started } =
                            requests.remove(random.usize(..requests.len()));
                        let Some(mut request) = request else { continue };
                        match started {
                            Some(started) if random.u32(..8) > 0 => {
                                request.respond(clock);
                                oracle.lasted(now - started);
                            }
                            Some(_) => {
                                // `resume_unwind` prints no panic message.
                                let panics = || request.run(|| std::panic::resume_unwind(Box::new(())));
                                let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics));
                                differs |= panicked.is_ok();
                                drop(request);
                                oracle.add_other();
                            }
                            None => drop(request),
                        }
                        oracle.end(taken);
                    }
                },
                Measured::Client(recorder, calls) => match random.u32(..3) {
                    0 => {
                        let is_sent = random.u32(..8) > 0;
                        let send = || if is_sent { Ok(()) } else { Err(()) };
                        match recorder.call(now, send) {
                            Ok(((), call)) => {
                                differs |= !is_sent || call.is_some() != oracle.is_enabled;
                                if call.is_some() {
                                    oracle.begin(now);
                                    oracle.start(now);
                                }
                                calls.push((call, now));
                            }
                            Err(()) => differs |= is_sent,
                        }
                    }
                    _ if calls.is_empty() => {}
                    kind => {
                        let (call, began) = calls.remove(random.usize(..calls.len()));
                        let Some(call) = call else { continue };
                        match kind {
                            1 => {
                                call.respond(clock, || (0, 0));
                                oracle.lasted(now - began);
                                oracle.add_other();
                            }
                            _ => {
                                drop(call);
                                oracle.drop_call();
                            }
                        }
                        oracle.end(began);
                    }
                },
                Measured::ActionServer(goals) => differs |= !goals.run(oracle, random, now),
                Measured::ActionClient(goals) => differs |= !goals.run(oracle, random, now),
                Measured::Timer(timer) if now >= timer.next => {
                    let (due, since_last) = (timer.next, now - timer.last);
                    // As in rcl, the next call is due at the first scheduled time that is not in the past.
                    timer.next = (1..)
                        .map(|periods| due + periods * timer.period)
                        .find(|next| *next >= now)
                        .unwrap_or(now);
                    timer.last = now;
                    differs |= timer.calls.is_enabled() != oracle.is_enabled;
                    if !oracle.is_enabled {
                        timer.schedule.forget();
                        timer.is_followed = false;
                        continue;
                    }
                    let reading =
                        TimerReading { before: now, until_next: timer.next - now, after: now, since_last };
                    let running = timer.calls.start(timer.schedule.call(reading), clock);
                    let skipped =
                        (1..).take_while(|periods| due + periods * timer.period < now).count() as u64;
                    let is_known = std::mem::replace(&mut timer.is_followed, true);
                    oracle.start(now);
                    oracle.call(is_known.then_some((now - due, skipped)));
                    let takes = random.i64(0..MS);
                    timer.calls.end(running, now + takes);
                    oracle.lasted(takes);
                }
                Measured::Timer(_) => {}
            }
        }
        equal("whether the service, the client, the timer or a goal differs", differs, false)?;
        self.pass();
        let next = self.random.i64(0..self.period / 4);
        self.after(next, Event::Waiting);
        Ok(())
    }
}
