// SPDX-License-Identifier: Apache-2.0

//! The header of an MCAP record.

/// The length of the magic bytes at the start and at the end of a file.
pub(super) const MAGIC: u64 = 8;
/// The length of a record's header, which has the kind of the record and the length of its body.
pub(super) const HEAD: u64 = 9;

/// Returns the kind of a record, and the length of its body.
pub(super) fn head(bytes: &[u8; HEAD as usize]) -> (u8, u64) {
    let [kind, length @ ..] = bytes;
    (*kind, u64::from_le_bytes(*length))
}
