// SPDX-License-Identifier: Apache-2.0

//! The health of a source after each window, by the rules of docs/health.md, written a second time: it keeps all
//! windows and all possible results, where the library keeps little. So it finds an alarm without a cause, a missing
//! alarm, and an alarm at a wrong time.

use rclrs_topic_statistics::health::Conditions;

use super::scenario::TOPICS;

/// Windows in a row that violate a condition until it fails, and that fulfil it until it holds.
const RAISE: u32 = 2;
pub const CLEAR: u32 = 3;
/// For how many messages at its limit a rate is counted.
const COUNTED: f64 = 100.0;
/// That many of the last windows are always known one by one; older ones may be joined.
const SINGLE: usize = 3;

/// A finished window.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// In seconds, on the monotonic clock.
    pub length: f64,
    /// None if unknown.
    pub count: Option<u64>,
    /// The averages of the ages and of the silence, in ms; NaN: unknown.
    pub age: f64,
    pub silence: f64,
}

/// A condition: its text and its limit.
#[derive(Clone, Debug)]
enum Limit {
    Rate(f64),
    Age(f64),
    Silence(f64),
}

/// The possible health of a source; several if a window can be judged in two ways.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub level: &'static str,
    /// `NoMessageYet`, `AsExpected`, `Silence`, `MessagesAgain`, or the text of a condition, with the value that
    /// violates it.
    pub cause: String,
    pub value: f64,
    /// Windows without a violation after silence.
    after_silence: Option<u32>,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Condition {
    fails: bool,
    /// The windows in a row that say the opposite.
    opposed: u32,
    violated_by: f64,
}

/// Whether a window fulfils a condition, and by which value. None if undecided.
type Answer = Option<(bool, f64)>;

/// The health of a source, window by window.
pub struct Judgement {
    limits: Vec<(String, Limit)>,
    stale_after: f64,
    /// The largest relative error of a window's length.
    slack: f64,
    states: Vec<State>,
    is_waiting: bool,
    has_messages: bool,
    /// The windows at the end without a message, in seconds.
    pub silent: f64,
    /// Messages and seconds of the windows by which a rate is judged.
    windows: Vec<(f64, f64)>,
}

impl State {
    fn new(level: &'static str, cause: &str, conditions: usize) -> Self {
        let (cause, conditions) = (cause.to_owned(), vec![Condition::default(); conditions]);
        Self { level, cause, value: 0.0, after_silence: None, conditions }
    }
}

impl Judgement {
    /// Returns the judgement of the subscriptions of a topic. None without expectations.
    pub fn new(topic: &str, slack: f64) -> Option<Self> {
        let topic =
            TOPICS.iter().find(|known| known.name == topic).filter(|topic| !topic.expected.is_empty())?;
        let conditions: Conditions = topic.expected.parse().ok()?;
        let limits: Vec<_> = conditions.iter().map(ToString::to_string).zip(limits(topic.expected)).collect();
        let longest = limits.iter().filter_map(|(_, limit)| match limit {
            Limit::Rate(rate) => Some(1.0 / rate),
            Limit::Silence(ms) => Some(ms * 1e-3),
            Limit::Age(_) => None,
        });
        let stale_after = longest.reduce(f64::max).map_or(10.0, |period| 3.0 * period);
        let states = vec![State::new("OK", "NoMessageYet", limits.len())];
        let (windows, is_waiting, has_messages) = (vec![], true, false);
        Some(Self { limits, stale_after, slack, states, is_waiting, has_messages, silent: 0.0, windows })
    }

    /// Goes on after messages in windows that were not seen, as expected.
    pub fn resume(&mut self) {
        (self.is_waiting, self.has_messages, self.silent) = (false, true, 0.0);
        self.windows.clear();
        self.states = vec![State::new("OK", "AsExpected", self.limits.len())];
    }

    pub fn waits_for_the_first(&self) -> bool {
        self.is_waiting && !self.has_messages
    }

    /// Accepts the next window.
    pub fn accept(&mut self, window: &Seen) {
        let is_silent = window.count == Some(0);
        self.silent = if is_silent { self.silent + window.length } else { 0.0 };
        if self.is_waiting && window.count.is_some_and(|count| count > 0) {
            (self.is_waiting, self.has_messages) = (false, true);
            self.windows.clear();
            let was_ok = self.states.iter().all(|state| state.level == "OK");
            let (level, cause) = if was_ok { ("OK", "AsExpected") } else { ("WARN", "MessagesAgain") };
            let after_silence = (!was_ok).then_some(0);
            self.states = vec![State { after_silence, ..State::new(level, cause, self.limits.len()) }];
        } else if self.is_waiting {
            let is_late = !self.has_messages && self.silent >= self.first_message_within();
            if is_late {
                self.states = vec![State::new("STALE", "NoMessageYet", self.limits.len())];
            }
        } else if is_silent && self.silent >= self.stale_after {
            self.is_waiting = true;
            self.states = vec![State::new("STALE", "Silence", self.limits.len())];
        } else {
            self.judge(window);
        }
    }

    fn first_message_within(&self) -> f64 {
        let rates = self.limits.iter().filter_map(|(_, limit)| match limit {
            Limit::Rate(rate) => Some(3.0 / rate),
            _ => None,
        });
        rates.fold(10.0, f64::max)
    }

    fn judge(&mut self, window: &Seen) {
        match window.count {
            Some(count) => self.windows.push((count as f64, window.length)),
            None => self.windows.clear(),
        }
        let has_messages = window.count != Some(0);
        let measured = |value: f64, limit: f64| (!value.is_nan()).then_some((value < limit, value));
        let answers: Vec<Vec<Answer>> = self
            .limits
            .iter()
            .map(|(_, limit)| match limit {
                Limit::Rate(limit) => self.rate(*limit, has_messages),
                Limit::Age(limit) => vec![measured(window.age, *limit).filter(|_| has_messages)],
                Limit::Silence(limit) => vec![measured(window.silence, *limit)],
            })
            .collect();
        let may_be_silent = self.limits.iter().any(|(_, limit)| matches!(limit, Limit::Silence(_)));
        let counts = window.count.is_some_and(|count| count > 0 || may_be_silent);
        let mut after = vec![];
        for state in &self.states {
            let mut possible = vec![(state.clone(), false)];
            for (index, answers) in answers.iter().enumerate() {
                let raise = if matches!(self.limits[index].1, Limit::Silence(_)) { 1 } else { RAISE };
                let each = |(state, violated): &(State, bool)| {
                    let (state, violated) = (state.clone(), *violated);
                    answers.iter().map(move |answer| {
                        let mut state = state.clone();
                        state.conditions[index].accept(*answer, raise);
                        (state, violated || answer.is_some_and(|(fulfils, _)| !fulfils))
                    })
                };
                possible = possible.iter().flat_map(each).collect();
            }
            after.extend(possible.into_iter().map(|(state, violated)| {
                self.level_of(State {
                    after_silence: state.after_silence.and_then(|windows| match windows {
                        _ if violated => Some(0),
                        windows if counts && windows + 1 >= CLEAR => None,
                        windows => Some(windows + u32::from(counts)),
                    }),
                    ..state
                })
            }));
        }
        after.dedup();
        self.states = after;
    }

    fn level_of(&self, state: State) -> State {
        let failing = state.conditions.iter().zip(&self.limits).find(|(condition, _)| condition.fails);
        let (level, cause, value) = match failing {
            Some((condition, (text, _))) => ("WARN", text.clone(), condition.violated_by),
            None if state.after_silence.is_some() => ("WARN", "MessagesAgain".to_owned(), 0.0),
            None => ("OK", "AsExpected".to_owned(), 0.0),
        };
        State { level, cause, value, ..state }
    }

    /// The possible results of the windows up to now for a rate: n messages prove n - 1 to n + 1 of them in that time.
    fn rate(&self, limit: f64, has_messages: bool) -> Vec<Answer> {
        let (mut messages, mut seconds, mut possible) = (0.0, 0.0, vec![]);
        for (index, (count, length)) in self.windows.iter().rev().enumerate() {
            messages += count;
            seconds += length;
            let value = messages / seconds;
            let mut answers = [1.0 - self.slack, 1.0 + self.slack].map(|error| {
                let seconds = seconds * error;
                if (messages - 1.0) / seconds >= limit {
                    Some(Some((true, value)))
                } else if (messages + 1.0) / seconds < limit {
                    Some(Some((false, value)))
                } else if seconds >= COUNTED / limit {
                    Some(has_messages.then_some((true, value)))
                } else {
                    None
                }
            });
            let is_certain = index < SINGLE && answers[0].is_some() && answers[0] == answers[1];
            if is_certain {
                answers[1] = None;
            }
            possible.extend(answers.into_iter().flatten());
            if is_certain || seconds > 2.0 * COUNTED / limit + 4.0 {
                return possible;
            }
        }
        possible.push(None);
        possible
    }

    /// Whether a health can be this one; then it is.
    pub fn agrees(&mut self, level: &str, cause: Option<&str>, value: Option<f64>) -> bool {
        let is_it = |state: &State| {
            let is_near =
                |value: f64| (value - state.value).abs() <= self.slack.max(1e-9) * state.value.abs() + 1e-9;
            state.level == level
                && cause.is_none_or(|cause| state.cause == cause)
                && value.is_none_or(|value| value.is_nan() || is_near(value))
        };
        let found: Vec<_> = self.states.iter().filter(|state| is_it(state)).cloned().collect();
        let agrees = !found.is_empty();
        if agrees {
            self.states = found;
        }
        agrees
    }

    /// For a message.
    pub fn expected(&self) -> String {
        let text = |state: &State| format!("{} by {} {}", state.level, state.cause, state.value);
        self.states.iter().map(text).collect::<Vec<_>>().join(" or ")
    }
}

impl Condition {
    fn accept(&mut self, answer: Answer, raise: u32) {
        let Some((fulfils, value)) = answer else { return };
        if !fulfils {
            self.violated_by = value;
        }
        if fulfils != self.fails {
            self.opposed = 0;
            return;
        }
        self.opposed += 1;
        if self.opposed >= if fulfils { CLEAR } else { raise } {
            (self.fails, self.opposed) = (!self.fails, 0);
        }
    }
}

/// Reads the limits of a topic: `rate>=15 age<1s silent<40s`.
fn limits(text: &str) -> Vec<Limit> {
    let milliseconds = |text: &str| {
        let units = [("min", 60e3), ("ms", 1.0), ("s", 1e3)];
        units.iter().find_map(|(unit, factor)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * factor))
    };
    let limit = |text: &str| {
        let rate = text.strip_prefix("rate>=").and_then(|rate| Some(Limit::Rate(rate.parse().ok()?)));
        let age = || text.strip_prefix("age<").and_then(milliseconds).map(Limit::Age);
        let silence = || text.strip_prefix("silent<").and_then(milliseconds).map(Limit::Silence);
        rate.or_else(age).or_else(silence)
    };
    text.split(' ').filter_map(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the levels after windows of 1 s.
    fn levels(topic: &str, counts: &[u64], ages: f64) -> Vec<String> {
        let mut judgement = Judgement::new(topic, 0.0).unwrap();
        let mut after = |count: &u64| {
            judgement.accept(&Seen { length: 1.0, count: Some(*count), age: ages, silence: 1.0 });
            judgement.expected().replace(" by AsExpected 0", "")
        };
        counts.iter().map(&mut after).collect()
    }

    #[test]
    fn each_topic_has_as_many_limits_as_conditions() {
        for topic in TOPICS.iter().filter(|topic| !topic.expected.is_empty()) {
            assert_eq!(limits(topic.expected).len(), topic.expected.split(' ').count(), "{}", topic.name);
        }
    }

    #[test]
    fn two_windows_raise_three_clear_and_silence_is_stale_at_once() {
        let counts = [5, 30, 8, 8, 8, 30, 30, 30, 0, 30, 30, 30, 30];
        let slow = "WARN by rate>=15 8";
        let (stale, again) = ("STALE by Silence 0", "WARN by MessagesAgain 0");
        let expected = ["OK", "OK", "OK", slow, slow, slow, slow, "OK", stale, again, again, again, "OK"];
        assert_eq!(levels("/robot/image", &counts, 1.0), expected);
    }

    #[test]
    fn an_age_is_judged_where_it_is_known() {
        assert_eq!(
            levels("/robot/image", &[30; 4], 2e3)[1..],
            ["OK", "WARN by age<1s 2000", "WARN by age<1s 2000"]
        );
        assert_eq!(levels("/robot/image", &[30; 4], f64::NAN), ["OK"; 4]);
    }

    #[test]
    fn what_a_window_does_not_decide_more_do() {
        // 4 messages prove 3 to 5 per second, and 8 in two 3.5 to 4.5.
        assert_eq!(levels("/robot/fix", &[5, 4, 4, 4, 4], 1.0), ["OK"; 5]);
        assert_eq!(levels("/robot/fix", &[5, 1, 1], 1.0)[2], "WARN by rate>=3.5 1");
    }
}
