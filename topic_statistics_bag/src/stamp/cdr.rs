// SPDX-License-Identifier: Apache-2.0

//! Reads the header stamp of a serialized message.
//!
//! The message is serialized as CDR, as in DDS: first an encapsulation header of 4 bytes, which defines the byte order
//! ([`ByteOrder`]), then fields that are aligned to their sizes.

use topic_statistics_core::header_stamp::{nanoseconds, ByteOrder};

use super::layout::{Layout, Step};
use crate::bytes::Bytes;

impl Layout {
    /// The largest number of steps for a message. No real message needs more steps. The limit bounds the time that a
    /// malicious message can take.
    const BUDGET: u32 = 1 << 16;

    /// Reads the header stamp in the fields of a message, in nanoseconds of Unix time. Returns `None` if the
    /// encapsulation is unknown, or if the message does not match its type. The bytes after the stamp are not read.
    pub(crate) fn read(&self, encapsulation: [u8; 4], fields: &mut impl Bytes) -> Option<i64> {
        let order = ByteOrder::new(encapsulation)?;
        let mut cursor = Cursor { fields, position: 0, order };
        let mut budget = Self::BUDGET;
        cursor.walk(&self.0, &mut budget)?;
        Some(nanoseconds(cursor.u32()? as i32, cursor.u32()?))
    }
}

struct Cursor<'a, B> {
    fields: &'a mut B,
    /// The position in the message, counted from the end of the encapsulation header.
    position: u64,
    order: ByteOrder,
}

impl<B: Bytes> Cursor<'_, B> {
    fn skip(&mut self, count: u64) -> Option<()> {
        self.position = self.position.checked_add(count)?;
        if count > 0 {
            self.fields.skip(count).ok()?;
        }
        Some(())
    }

    fn align(&mut self, size: u8) -> Option<()> {
        let size = u64::from(size);
        self.skip((size - self.position % size) % size)
    }

    fn u32(&mut self) -> Option<u32> {
        self.align(4)?;
        let bytes = self.fields.array().ok()?;
        self.position += 4;
        Some(self.order.u32(bytes))
    }

    fn primitives(&mut self, size: u8, count: u32) -> Option<()> {
        if count == 0 {
            return Some(()); // without elements, there is no alignment
        }
        self.align(size)?;
        self.skip(u64::from(size) * u64::from(count))
    }

    fn walk(&mut self, mut steps: &[Step], budget: &mut u32) -> Option<()> {
        while let Some((step, mut rest)) = steps.split_first() {
            *budget = budget.checked_sub(1)?;
            match *step {
                Step::Primitives { size, count } => self.primitives(size, count)?,
                Step::String => {
                    let length = self.u32()?;
                    self.skip(length.into())?;
                }
                Step::Sequence { size } => {
                    let count = self.u32()?;
                    self.primitives(size, count)?;
                }
                Step::Repeat { steps, times } => {
                    let (repeated, after) = rest.split_at_checked(steps as usize)?;
                    let times = match times {
                        Some(times) => times,
                        None => self.u32()?,
                    };
                    for _ in 0..times {
                        *budget = budget.checked_sub(1)?;
                        self.walk(repeated, budget)?;
                    }
                    rest = after;
                }
            }
            steps = rest;
        }
        Some(())
    }
}
