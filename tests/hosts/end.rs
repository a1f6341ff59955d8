// SPDX-License-Identifier: Apache-2.0

//! No process or namespace of the hosts is left after a test.

use std::{
    mem::ManuallyDrop,
    panic::{catch_unwind, AssertUnwindSafe},
    path::{Path, PathBuf},
    sync::Mutex,
};

use test_support::{domain, program, wait_for};

use super::{programs, start, two_hosts};

/// Returns whether any thread is left in one of these namespaces, or any of these processes is left.
fn is_anything_left(namespaces: &[String], processes: &[u32]) -> bool {
    // A process that has ended but was not waited for has no executable in /proc.
    let runs = |process: &u32| std::fs::read_link(format!("/proc/{process}/exe")).is_ok();
    let threads = std::fs::read_dir("/proc").unwrap().flatten();
    let mut threads =
        threads.filter_map(|process| std::fs::read_dir(process.path().join("task")).ok()).flatten().flatten();
    let is_there = |namespace: PathBuf| namespaces.iter().any(|known| Path::new(known) == namespace);
    processes.iter().any(runs)
        || threads.any(|thread| std::fs::read_link(thread.path().join("ns/net")).is_ok_and(is_there))
}

#[test]
fn nothing_is_left_of_the_hosts_after_a_panic() {
    let Some(network) = two_hosts() else { return };
    let made = Mutex::new((vec![], vec![]));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let network = network;
        let talker = start(&network.talking, program("talker"), "", domain());
        // This process is never ended by its handle: the kernel ends it.
        let leaked = ManuallyDrop::new(start(&network.listening, program("talker"), "", domain()));
        let namespaces = [&network.talking, &network.listening].map(|host| host.namespace.clone());
        let processes = vec![talker.id(), leaked.id()];
        assert!(is_anything_left(&namespaces, &[]) && is_anything_left(&[], &processes));
        *made.lock().unwrap() = (namespaces.to_vec(), processes);
        panic!("the panic of this test");
    }));
    assert!(panicked.is_err());
    let (namespaces, processes) = made.into_inner().unwrap();
    assert_eq!((namespaces.len(), processes.len()), (2, 2), "the hosts were started");
    wait_for("end of the hosts", || !is_anything_left(&namespaces, &processes));
}

#[test]
fn nothing_is_left_of_the_hosts_of_a_test_process_that_is_killed() {
    let Some(_possible) = two_hosts() else { return };
    let (killed, namespaces, processes) = programs::start_hosts(domain());
    assert!(is_anything_left(&namespaces, &[]) && is_anything_left(&[], &processes));
    drop(killed);
    wait_for("end of the hosts", || !is_anything_left(&namespaces, &processes));
}
