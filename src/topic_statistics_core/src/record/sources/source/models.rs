// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::{
    model::{check, Reached, Ticks},
    record::{code::Durations, windowed::Windowed},
    sync::thread,
};

/// Creates a source with one finished window.
fn source() -> (Arc<Source>, Arc<WindowStatistics>) {
    let (clock, durations) = (Ticks::new(), Arc::new(Windowed::new(Durations::default())));
    durations.enable(&clock);
    let window = durations.end_window(&clock).unwrap().statistics;
    (Arc::new(Source::new("source".to_owned(), durations, None)), Arc::new(window))
}

/// Returns a copy of `template` with the count `count`, which distinguishes the windows of the model.
fn window(template: &WindowStatistics, count: u64) -> Arc<WindowStatistics> {
    Arc::new(WindowStatistics { count, ..template.clone() })
}

/// Two threads begin to watch a source while its windows end. After all windows have ended, each thread must have the
/// last window, or a notification that there is a newer window.
#[test]
fn a_watcher_misses_no_window() {
    let seen_at_first = [(); 3].map(|()| Reached::default());
    let reached = seen_at_first.clone();
    check(4, move || {
        let (source, template) = source();
        let threads = [(); 2].map(|()| {
            let source = Arc::clone(&source);
            thread::spawn(move || {
                let mut watched = source.watch();
                let seen = watched.borrow_and_update().as_ref().map_or(0, |window| window.count);
                (watched, seen)
            })
        });
        source.finish(window(&template, 1));
        source.finish(window(&template, 2));
        for (mut watched, seen) in threads.map(|thread| thread.join().unwrap()) {
            assert_eq!(watched.has_changed().unwrap(), seen < 2);
            assert_eq!(watched.borrow_and_update().as_ref().unwrap().count, 2);
            reached[seen as usize].set_if(true);
        }
        assert_eq!(source.latest().unwrap().count, 2);
    });
    seen_at_first.iter().for_each(Reached::assert);
}
