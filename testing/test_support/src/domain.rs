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

/// Returns the ROS domain of this thread. The test harness runs each test on a separate thread, so each test has its
/// own domain. While this thread runs, no other test or demo gets the domain. No DDS program used the domain when it
/// was chosen. Returns `None` if all domains are in use.
pub fn domain() -> Option<u32> {
    thread_local! {
        static TAKEN: OnceCell<(u32, File)> = const { OnceCell::new() };
    }
    static NEXT: AtomicU32 = AtomicU32::new(0);
    TAKEN.with(|taken| {
        if let Some((domain, _)) = taken.get() {
            return Some(*domain);
        }
        // The process id makes different processes start their search at different domains.
        let first = std::process::id() * 16 + NEXT.fetch_add(1, Ordering::Relaxed);
        let free = free_domain(first)?;
        Some(taken.get_or_init(|| free).0)
    })
}

/// Returns a domain that nobody uses, and its lock. All processes of this project lock their domains in this way.
fn free_domain(first: u32) -> Option<(u32, File)> {
    let used = used_udp_ports();
    // Domain 0 is the default of other programs. From domain 102 on, Linux may give the ports to any socket.
    (first..first + 101).map(|next| 1 + next % 101).find_map(|domain| {
        let lock = File::create(lock_path(domain)).ok()?; // fails if the file belongs to another user
        flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
        // Other programs do not lock their domains, so this code checks the UDP ports that DDS derives from the domain.
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
    // The second field of a line is the local address and port in hexadecimal: 0100007F:1CE8.
    let port = |line: &str| u32::from_str_radix(line.split_whitespace().nth(1)?.rsplit_once(':')?.1, 16).ok();
    tables.iter().flat_map(|table| table.lines().filter_map(port)).collect()
}
