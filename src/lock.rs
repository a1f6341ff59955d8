use std::time::Duration;

use spin::RelaxStrategy;

/// The lock that a message takes.
///
/// It is held for some hundred nanoseconds, by a message or by the end of a window, so that to find it taken is rare. Then
/// a sleep lets whoever holds it go on, even if that is a thread of lower priority on the same core, which would never get it
/// from one that spins.
pub(crate) type Lock<T> = spin::mutex::Mutex<T, Sleep>;
pub(crate) type LockGuard<'a, T> = spin::mutex::MutexGuard<'a, T, Sleep>;

/// Waits for the lock.
pub(crate) struct Sleep;

impl RelaxStrategy for Sleep {
    fn relax() {
        std::thread::sleep(Duration::from_micros(20));
    }
}
