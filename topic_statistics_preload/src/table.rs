// SPDX-License-Identifier: Apache-2.0

//! Tables whose lookups take no lock. For example, a table maps the address of an rmw handle to the handle's
//! statistics, and another table maps a callback to its subscription.

use std::{
    ptr::{null_mut, NonNull},
    sync::{
        atomic::{AtomicPtr, AtomicUsize, Ordering},
        Mutex,
    },
};

use topic_statistics_core::mutex::lock;

pub struct Table<T>(Pointers<T>);

/// A table of pointers with a bounded size. A lookup takes no lock and allocates nothing. The table never dereferences
/// the pointers.
pub struct Pointers<T> {
    slots: [Slot<T>; SLOTS],
    /// The number of entries. A thread locks this mutex while it changes the table.
    length: Mutex<usize>,
}

struct Slot<T> {
    /// The key of the entry, or [`FREE`], or [`REMOVED`].
    key: AtomicUsize,
    value: AtomicPtr<T>,
}

const SLOTS: usize = 4096;
/// The largest number of entries.
pub const BOUND: usize = SLOTS / 2;
/// The key of a free slot. A search for a key ends at a free slot.
const FREE: usize = 0;
/// The key of a slot whose entry was removed. A search continues after such a slot. No handle has the address 1.
const REMOVED: usize = 1;

impl<T> Table<T> {
    pub const fn new() -> Self {
        Self(Pointers::new())
    }

    /// Returns the value of a key.
    /// Safety: The entry must not be removed while the value is used.
    #[inline]
    pub unsafe fn get(&self, key: usize) -> Option<&T> {
        // SAFETY: The pointer is from a `Box`, which is dropped only after the entry is removed.
        self.0.get(key).map(|value| unsafe { value.as_ref() })
    }

    /// Adds an entry. Returns false if the table is full. The key must not be in the table.
    pub fn insert(&self, key: usize, value: Box<T>) -> bool {
        let value = Box::into_raw(value);
        let is_inserted = self.0.insert(key, value);
        if !is_inserted {
            // SAFETY: The pointer is from the `Box` above.
            drop(unsafe { Box::from_raw(value) });
        }
        is_inserted
    }

    pub fn remove(&self, key: usize) -> Option<Box<T>> {
        // SAFETY: `insert` took the pointer from a `Box`, and the table no longer contains the pointer.
        self.0.remove(key).map(|value| unsafe { Box::from_raw(value.as_ptr()) })
    }
}

impl<T> Pointers<T> {
    pub const fn new() -> Self {
        Self {
            slots: [const { Slot { key: AtomicUsize::new(FREE), value: AtomicPtr::new(null_mut()) } }; SLOTS],
            length: Mutex::new(0),
        }
    }

    /// Returns the slots in the order in which a search for the key visits them.
    #[inline]
    fn slots_of(&self, key: usize) -> impl Iterator<Item = (usize, &Slot<T>)> {
        // Fibonacci hashing is used, because the low bits of all addresses are equal.
        let first = (key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - SLOTS.trailing_zeros());
        (0..SLOTS).map(move |step| {
            let index = (first as usize + step) % SLOTS;
            (index, &self.slots[index])
        })
    }

    #[inline]
    fn find(&self, key: usize) -> Option<(usize, &Slot<T>)> {
        for (index, slot) in self.slots_of(key) {
            match slot.key.load(Ordering::Acquire) {
                FREE => return None,
                present if present == key && key != REMOVED => return Some((index, slot)),
                _ => {}
            }
        }
        None
    }

    #[inline]
    pub fn get(&self, key: usize) -> Option<NonNull<T>> {
        NonNull::new(self.find(key)?.1.value.load(Ordering::Acquire))
    }

    /// Adds an entry. Returns false if the table is full. The key must not be in the table.
    pub fn insert(&self, key: usize, value: *mut T) -> bool {
        let mut length = lock(&self.length);
        if *length >= BOUND {
            return false;
        }
        let is_unused = |slot: &Slot<T>| matches!(slot.key.load(Ordering::Relaxed), FREE | REMOVED);
        let Some((_, slot)) = self.slots_of(key).find(|(_, slot)| is_unused(slot)) else { return false };
        slot.value.store(value, Ordering::Release);
        slot.key.store(key, Ordering::Release);
        *length += 1;
        true
    }

    pub fn remove(&self, key: usize) -> Option<NonNull<T>> {
        let mut length = lock(&self.length);
        let (index, slot) = self.find(key)?;
        let value = slot.value.swap(null_mut(), Ordering::AcqRel);
        slot.key.store(REMOVED, Ordering::Release);
        *length -= 1;
        self.free_last(index);
        NonNull::new(value)
    }

    /// Frees the removed slots directly before a free slot, so that searches for a key stay short.
    fn free_last(&self, mut index: usize) {
        let key = |index: usize| &self.slots[index % SLOTS].key;
        while key(index + 1).load(Ordering::Relaxed) == FREE && key(index).load(Ordering::Relaxed) == REMOVED
        {
            key(index).store(FREE, Ordering::Release);
            index = index.checked_sub(1).unwrap_or(SLOTS - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_until_they_are_removed() {
        let table: Table<usize> = Table::new();
        let address = |number: usize| 0x7f00_0000_1000 + number * 48;
        let get = |number: usize| {
            // SAFETY: No other thread removes entries.
            unsafe { table.get(address(number)) }.copied()
        };
        for number in 0..BOUND {
            assert!(table.insert(address(number), Box::new(number)));
        }
        assert!(!table.insert(1 << 40, Box::new(0)), "the table is full");
        for number in (0..BOUND).step_by(2) {
            assert_eq!(table.remove(address(number)).as_deref(), Some(&number));
            assert_eq!(table.remove(address(number)), None);
        }
        for number in 0..BOUND {
            assert_eq!(get(number), (number % 2 == 1).then_some(number));
        }
        // Fails if slots stay marked as removed, because such slots make searches longer.
        (1..BOUND).step_by(2).for_each(|number| drop(table.remove(address(number))));
        for number in 0..100_000 {
            assert!(table.insert(address(number), Box::new(number)));
            assert_eq!(get(number), Some(number));
            assert!(table.remove(address(number)).is_some());
        }
        assert!(table.0.slots.iter().all(|slot| slot.key.load(Ordering::Relaxed) == FREE));
    }
}
