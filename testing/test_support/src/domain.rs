// SPDX-License-Identifier: Apache-2.0

//! Free ROS domains. xtask, which builds without ROS, includes this file.

use std::{
    cell::OnceCell,
    collections::BTreeSet,
    fs::File,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::fs::{flock, FlockOperation};

/// Returns the ROS domain of this thread. The harness runs each test on a separate thread, so a test has its own
/// domain. No other test or demo uses the domain while the thread runs. No DDS program used it when it was chosen.
/// `None` if all domains are in use.
pub fn domain() -> Option<u32> {
    thread_local! {
        static TAKEN: OnceCell<(u32, File)> = const { OnceCell::new() };
    }
    static NEXT: AtomicU32 = AtomicU32::new(0);
    TAKEN.with(|taken| {
        if let Some((domain, _)) = taken.get() {
            return Some(*domain);
        }
        // The process id spreads the first attempts.
        let first = std::process::id() * 16 + NEXT.fetch_add(1, Ordering::Relaxed);
        let free = free_domain(first)?;
        Some(taken.get_or_init(|| free).0)
    })
}

/// Returns a free domain, and its lock. Other processes of this project lock their domains in the same way.
fn free_domain(first: u32) -> Option<(u32, File)> {
    let used = used_udp_ports();
    // Domain 0 is the default of other programs. From domain 102 on, the system may use the ports.
    (first..first + 101).map(|next| 1 + next % 101).find_map(|domain| {
        let lock = File::create(lock_path(domain)).ok()?; // fails if the file belongs to another user
        flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
        // Other programs do not lock a domain, so check the ports that DDS derives from it.
        let first_port = 7400 + 250 * domain;
        used.range(first_port..first_port + 250).next().is_none().then_some((domain, lock))
    })
}

fn lock_path(domain: u32) -> PathBuf {
    std::env::temp_dir().join(format!("rclrs_topic_statistics-domain-{domain}.lock"))
}

fn used_udp_ports() -> BTreeSet<u32> {
    let tables =
        ["/proc/net/udp", "/proc/net/udp6"].map(|table| std::fs::read_to_string(table).unwrap_or_default());
    // The second field of a line is the local address: 0100007F:1CE8.
    let port = |line: &str| u32::from_str_radix(line.split_whitespace().nth(1)?.rsplit_once(':')?.1, 16).ok();
    tables.iter().flat_map(|table| table.lines().filter_map(port)).collect()
}
