// SPDX-License-Identifier: Apache-2.0

//! Real faults. The library must raise a level for each fault, and clear the level after the fault has ended, both
//! within the number of windows in docs/health.md.

use topic_statistics_core::health::Level;

use super::{
    robot::Stream,
    state::{Alarm, Day},
};
use crate::{
    clocks::{MS, S},
    equal::equal,
};

struct Harm {
    source: &'static str,
    text: &'static str,
    change: fn(&mut Stream),
    level: Level,
    /// The largest number of whole windows of 1 s from the start of the fault until its level is raised.
    raised: i64,
    /// The largest number of whole windows of 1 s from the end of the fault until its level is cleared.
    cleared: i64,
}

const NEVER: i64 = i64::MAX / 4;

/// Returns a fault whose level is raised within two windows, and cleared within three.
const fn harm(source: &'static str, text: &'static str, level: Level, change: fn(&mut Stream)) -> Harm {
    Harm { source, text, change, level, raised: 2, cleared: 3 }
}

fn halve_rate(stream: &mut Stream) {
    stream.row.period *= 2;
}

fn silence(stream: &mut Stream) {
    stream.next = NEVER;
}

/// The number of windows until the level is cleared after silence: one window that does not count, and three good
/// windows. The first window with messages does not count, because its messages came only in a part of the window.
const AFTER_SILENCE: i64 = 4;

const HARMS: &[Harm] = &[
    harm("/joint_states", "half the rate", Level::Error, halve_rate),
    harm("/joint_states", "2 % lost", Level::Warn, |stream| stream.lost = 0.02),
    harm("/joint_states", "ages of 16 ms", Level::Error, |stream| stream.row.age = 16 * MS),
    harm("/joint_states", "ages of 3 ms", Level::Warn, |stream| stream.row.age = 3 * MS),
    Harm { raised: 1, cleared: AFTER_SILENCE, ..harm("/joint_states", "silence", Level::Stale, silence) },
    harm("/tf", "2 % lost", Level::Warn, |stream| stream.lost = 0.02),
    harm("/tf", "half the rate", Level::Warn, halve_rate),
    harm("/scan", "half the rate", Level::Warn, halve_rate),
    harm("/scan", "ages of 110 ms", Level::Warn, |stream| stream.row.age = 110 * MS),
    harm("/scan", "ages of 300 ms", Level::Error, |stream| stream.row.age = 300 * MS),
    harm("/scan", "stamps are not set", Level::Error, |stream| stream.is_stamped = false),
    Harm { raised: 1, cleared: AFTER_SILENCE, ..harm("/scan", "silence", Level::Stale, silence) },
    // The healthy bandwidth is only 2 % above its limit, so the level is cleared only after the bandwidth was counted
    // for a minute.
    Harm { cleared: 65, ..harm("/camera", "half the bandwidth", Level::Warn, |stream| stream.row.size /= 2) },
    Harm {
        cleared: 65,
        ..harm("/camera", "a third of the rate", Level::Error, |stream| stream.row.period *= 3)
    },
    harm("/camera", "callbacks of 32 ms", Level::Warn, |stream| stream.row.takes = 32 * MS),
    Harm { raised: 5, cleared: 13, ..harm("/fix", "half the rate", Level::Warn, halve_rate) },
    harm("/fix", "ages of 300 ms", Level::Warn, |stream| stream.row.age = 300 * MS),
    Harm { raised: 6, cleared: AFTER_SILENCE, ..harm("/fix", "silence", Level::Stale, silence) },
    // `/route` is a latched topic.
    Harm { raised: 8, cleared: 20, ..harm("/route", "half the rate", Level::Warn, halve_rate) },
    Harm { raised: 6, cleared: AFTER_SILENCE, ..harm("/route", "silence", Level::Stale, silence) },
    // A percentile needs 100 samples. The level is raised after two violating percentiles, and cleared after three good
    // ones.
    Harm {
        raised: 200,
        cleared: 400,
        ..harm("/temperature", "ages of 300 ms", Level::Warn, |stream| stream.row.age = 300 * MS)
    },
    Harm { raised: 10, cleared: AFTER_SILENCE, ..harm("/temperature", "silence", Level::Stale, silence) },
    Harm {
        raised: 25,
        cleared: 35,
        ..harm("/battery", "callbacks of 3 s", Level::Warn, |stream| stream.row.takes = 3 * S)
    },
    Harm {
        raised: 25,
        cleared: 35,
        ..harm("/battery", "stamps are not set", Level::Error, |stream| stream.is_stamped = false)
    },
    harm("/cmd_vel", "publications of 8 ms", Level::Error, |stream| stream.row.takes = 8 * MS),
    harm("/cmd_vel", "half the rate", Level::Warn, halve_rate),
    harm("/cmd_vel", "half the bandwidth", Level::Warn, |stream| stream.row.size /= 2),
    Harm { raised: 1, cleared: AFTER_SILENCE, ..harm("/cmd_vel", "silence", Level::Stale, silence) },
    Harm {
        raised: 7,
        cleared: 10,
        ..harm("call_driver", "durations of 8 ms", Level::Warn, |stream| stream.row.takes = 8 * MS)
    },
    harm("frames", "half the frequency", Level::Warn, halve_rate),
    Harm { raised: 1, cleared: AFTER_SILENCE, ..harm("frames", "silence", Level::Stale, silence) },
    harm("/odom", "ages of 150 ms of simulated time", Level::Warn, |stream| stream.row.age = 150 * MS),
    harm("/odom", "ages of 700 ms of simulated time", Level::Error, |stream| stream.row.age = 700 * MS),
    Harm { cleared: AFTER_SILENCE, ..harm("/odom", "silence", Level::Warn, silence) },
    harm("/clock", "half the rate", Level::Warn, halve_rate),
];

/// Injects each fault into a robot that was healthy for two minutes. Returns a table of the results.
pub fn run(seed: u64) -> Result<String, String> {
    let mut missed = String::new();
    let mut table = format!("{:<16}{:<48}{:<7}{:>7}{:>9}\n", "source", "fault", "level", "raised", "cleared");
    let late = harm("/map", "its node starts 60 s late", Level::Stale, silence);
    let all = (1..).zip(HARMS).map(|(number, harm)| (harm, find(seed.wrapping_add(number), harm)));
    for (Harm { source, text, level, .. }, found) in all.chain([(&late, find_late(seed, &late))]) {
        match found {
            Ok((raised, cleared)) => {
                let level = level.name();
                table += &format!("{source:<16}{text:<48}{level:<7}{raised:>7}{cleared:>9}\n");
            }
            Err(error) => missed += &format!("\n{source}: {text}: {error}"),
        }
    }
    match missed.is_empty() {
        true => Ok(table),
        false => Err(missed),
    }
}

/// Returns the number of whole windows from the start of a fault until its level is raised, and from the end of the
/// fault until the level is cleared.
fn find(seed: u64, harm: &Harm) -> Result<(i64, i64), String> {
    let mut day = Day::new(seed);
    let began = day.now + 130 * S + day.random.i64(0..S);
    day.run_until(began)?;
    if let Some(alarm) = day.alarms.first() {
        return Err(format!("before the fault: {}", alarm.text(began)));
    }
    let index = place(&day, harm);
    let healthy = day.streams[index].row;
    (harm.change)(&mut day.streams[index]);
    let raised = wait_for(&mut day, began, harm, harm.raised, harm.level)?;
    // Wait until all effects of the fault are visible.
    day.run_until(day.now + 20 * S)?;
    let ended = day.now;
    let stream = &mut day.streams[index];
    (stream.row, stream.lost, stream.is_stamped) = (healthy, 0.0, true);
    stream.next = stream.next.min(ended + day.random.i64(0..healthy.period));
    day.alarms.retain(|alarm| !is_about(alarm, harm));
    let cleared = wait_for(&mut day, ended, harm, harm.cleared, Level::Ok)?;
    match day.alarms.iter().find(|alarm| !is_about(alarm, harm)) {
        Some(alarm) => Err(format!("for no reason: {}", alarm.text(ended))),
        None => Ok((raised, cleared)),
    }
}

/// Starts the map's node late: the map's only message is sent after 60 s. Returns two numbers of windows: until the
/// topic is STALE, and from the message until the topic is OK. From then on, the topic must stay OK.
fn find_late(seed: u64, map: &Harm) -> Result<(i64, i64), String> {
    const LATE: i64 = 60 * S;
    let mut day = Day::new(seed);
    let index = place(&day, map);
    let (began, sent) = (day.now, day.now + LATE + day.random.i64(0..S));
    day.streams[index].next = sent;
    let raised = wait_for(&mut day, began, map, 10, Level::Stale)?;
    day.run_until(sent)?;
    day.alarms.retain(|alarm| !is_about(alarm, map));
    let cleared = wait_for(&mut day, sent, map, 3, Level::Ok)?;
    // The map is not published again, and must nevertheless stay OK.
    day.run_until(day.now + 600 * S)?;
    let levels: Vec<_> = day.alarms.iter().map(|alarm| (&*alarm.source, alarm.health.level)).collect();
    let expected = vec![("/node:/map", Level::Warn), ("/node:/map", Level::Ok)];
    equal("levels after the message", levels, expected)?;
    Ok((raised, cleared))
}

fn place(day: &Day, harm: &Harm) -> usize {
    day.streams.iter().position(|stream| stream.row.name == harm.source).expect("a source of the robot")
}

fn is_about(alarm: &Alarm, harm: &Harm) -> bool {
    alarm.source.strip_prefix("/node:") == Some(harm.source)
}

/// Returns the number of whole windows from `since` until the source has this level.
fn wait_for(day: &mut Day, since: i64, harm: &Harm, windows: i64, level: Level) -> Result<i64, String> {
    // `since` is within a window. The rest of this window is not counted, so one window is added.
    day.run_until(since + (windows + 1) * S)?;
    let alarms: Vec<_> = day.alarms.iter().filter(|alarm| is_about(alarm, harm)).collect();
    let found = alarms.iter().find(|alarm| alarm.health.level == level);
    found.map(|alarm| (alarm.at - since) / S).ok_or_else(|| {
        let changes: String = alarms.iter().map(|alarm| format!("\n  {}", alarm.text(since))).collect();
        format!("not found within {windows} windows{changes}")
    })
}
