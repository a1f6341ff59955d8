// SPDX-License-Identifier: Apache-2.0

//! The requests on disk: a table of SQLite.
//!
//! SQLite writes a request as a whole or not at all, also after SIGKILL or a loss of power, and locks the file against
//! other processes. The checksum of gzip shows damage that SQLite does not see.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{params, Connection, ErrorCode, OptionalExtension};
use thiserror::Error;

use crate::compression::decompress;

/// Why requests cannot be on disk.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The directory cannot be made.
    #[error("the directory cannot be made: {0}")]
    Directory(#[from] io::Error),
    /// SQLite cannot open, read or write its file.
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
    /// Another process has the file.
    #[error("it is in use by another process: give each exporter its own directory")]
    InUse,
    /// A request is not what was written.
    #[error("a request is damaged")]
    Damaged,
}

/// A request on disk, without its body.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// Its place in the order of requests.
    pub sequence: u64,
    /// When it was added, by the clock of the queue.
    pub added: Duration,
    /// Its size, compressed.
    pub bytes: u64,
}

/// The file. No other process uses it.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
}

impl Store {
    const FILE: &str = "requests.sqlite";
    /// The suffix of a damaged file, which is kept.
    const DAMAGED: &str = "requests.sqlite.damaged";
    /// The size to which the file's log is reduced, in bytes.
    const LOG_SIZE: i64 = 1 << 20;

    /// Opens the file in a directory, or makes both, with permission for their owner only.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let connection = Connection::open(directory.join(Self::FILE))?;
        connection.busy_timeout(Duration::ZERO)?;
        // With a lock for as long as the file is open, SQLite needs no memory shared with other processes.
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        connection.pragma_update(None, "journal_mode", "WAL").map_err(Self::in_use)?;
        connection.pragma_update(None, "journal_size_limit", Self::LOG_SIZE)?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        let table = "CREATE TABLE IF NOT EXISTS requests \
                     (sequence INTEGER PRIMARY KEY AUTOINCREMENT, added_ms INTEGER NOT NULL, body BLOB NOT NULL)";
        connection.execute_batch(table).map_err(Self::in_use)?;
        Ok(Self { connection })
    }

    /// Renames a damaged file, so that somebody can look at it. One that was kept before is overwritten.
    pub fn set_aside(directory: &Path) -> io::Result<PathBuf> {
        let aside = directory.join(Self::DAMAGED);
        fs::rename(directory.join(Self::FILE), &aside)?;
        for suffix in ["-wal", "-shm"] {
            // Its changes are of the damaged file. There may be none.
            let _gone = fs::remove_file(directory.join(format!("{}{suffix}", Self::FILE)));
        }
        Ok(aside)
    }

    /// Returns the requests, in their order, and the sequence number of the next one.
    pub fn list(&self) -> Result<(Vec<Stored>, u64), StoreError> {
        let mut statement = self
            .connection
            .prepare("SELECT sequence, added_ms, length(body) FROM requests ORDER BY sequence")?;
        let rows = statement.query_map([], |row| {
            let [sequence, added, bytes] = [row.get(0)?, row.get(1)?, row.get(2)?].map(unsigned);
            Ok(Stored { sequence, added: Duration::from_millis(added), bytes })
        })?;
        let stored: Vec<Stored> = rows.collect::<Result<_, _>>()?;
        let last = "SELECT seq FROM sqlite_sequence WHERE name = 'requests'";
        let last: Option<i64> = self.connection.query_row(last, [], |row| row.get(0)).optional()?;
        Ok((stored, last.map_or(0, |last| unsigned(last) + 1)))
    }

    /// Adds a request. It is on the disk when this returns.
    pub fn add(&self, request: Stored, body: &[u8]) -> Result<(), StoreError> {
        let added = i64::try_from(request.added.as_millis()).unwrap_or(i64::MAX);
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        let result = self.connection.execute(
            "INSERT INTO requests (sequence, added_ms, body) VALUES (?1, ?2, ?3)",
            params![signed(request.sequence), added, body],
        );
        // A removal that a loss of power undoes costs a request that is sent twice, and synchronising each takes longer
        // than sending.
        self.connection.pragma_update(None, "synchronous", "NORMAL")?;
        result?;
        Ok(())
    }

    /// Returns the body of a request.
    pub fn read(&self, sequence: u64) -> Result<Vec<u8>, StoreError> {
        let select = "SELECT body FROM requests WHERE sequence = ?1";
        let body = self.connection.query_row(select, [signed(sequence)], |row| row.get(0)).optional()?;
        let body: Vec<u8> = body.ok_or(StoreError::Damaged)?;
        decompress(&body).map_err(|_| StoreError::Damaged)?;
        Ok(body)
    }

    /// Removes requests.
    pub fn remove(&self, sequences: &[u64]) -> Result<(), StoreError> {
        let transaction = self.connection.unchecked_transaction()?;
        for sequence in sequences {
            transaction.execute("DELETE FROM requests WHERE sequence = ?1", [signed(*sequence)])?;
        }
        Ok(transaction.commit()?)
    }

    /// Limits the file, as a full disk does.
    #[cfg(test)]
    pub fn limit_pages(&self, pages: u32) {
        self.connection.pragma_update(None, "max_page_count", pages).unwrap();
    }

    fn in_use(error: rusqlite::Error) -> StoreError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::InUse,
            _ => error.into(),
        }
    }
}

impl StoreError {
    /// Returns whether the content of the file is damaged: no later attempt reads it.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Sqlite(rusqlite::Error::InvalidColumnType(..)) => true,
            Self::Sqlite(error) => {
                matches!(
                    error.sqlite_error_code(),
                    Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
                )
            }
            Self::Damaged => true,
            Self::Directory(_) | Self::InUse => false,
        }
    }

    /// Returns whether the disk is full.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Sqlite(error) => error.sqlite_error_code() == Some(ErrorCode::DiskFull),
            Self::Directory(error) => error.kind() == io::ErrorKind::StorageFull,
            Self::Damaged | Self::InUse => false,
        }
    }
}

/// SQLite's numbers have a sign. Sequence numbers and sizes are far from the largest one.
fn signed(number: u64) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    number.try_into().unwrap_or_default()
}
