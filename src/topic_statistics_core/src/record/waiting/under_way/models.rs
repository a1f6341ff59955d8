// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::{
    model::{check, Reached},
    sync::thread,
};

/// Two requests begin and end while a window ends. Both windows have to report the right largest number of requests at
/// the same time, and no request is in progress after both have ended.
#[test]
fn the_most_at_once_is_at_least_those_at_each_edge() {
    let both = Reached::default();
    let reached = both.clone();
    check(3, move || {
        let active = Active::default();
        let threads = [(); 2].map(|()| {
            let active = active.clone();
            thread::spawn(move || {
                active.begin();
                active.end();
            })
        });
        let (at_edge, most_before) = active.take();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let (at_end, most_after) = active.take();
        assert_eq!(at_end, 0);
        assert!(most_before >= at_edge && most_after >= at_edge && most_before.max(most_after) >= 1);
        reached.set_if(at_edge == 2);
    });
    both.assert();
}
