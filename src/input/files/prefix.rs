//! What a file begins with: how many bytes, their hash, and how many lines.
//!
//! A file that is read in parts may only grow: what was read of it must still be there, byte for byte, or every record
//! behind the change would have another place, and count twice.

use super::compressed::Bytes;
use floodmark_sinks::inputs::ReadBytes;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

const CHUNK_BYTES: usize = 64 << 10;

/// The bytes of a file from its beginning on, as far as they were taken in.
#[derive(Clone, Default)]
pub struct Prefix {
    bytes: u64,
    line_breaks: u64,
    hasher: Xxh3,
}

impl Prefix {
    /// The first bytes of a file.
    ///
    /// # Errors
    ///
    /// It cannot be read, or has fewer bytes.
    pub fn of_file(path: &Path, bytes: u64) -> io::Result<Self> {
        let mut prefix = Self::default();
        prefix.read_on(&mut Bytes::open(path, |_| {})?, bytes)?;
        Ok(prefix)
    }

    /// Reads on up to this many bytes from the beginning.
    ///
    /// # Errors
    ///
    /// They cannot be read, or there are fewer.
    pub fn read_on(&mut self, reader: &mut impl Read, bytes: u64) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK_BYTES];
        while self.bytes < bytes {
            let wanted = usize::try_from(bytes - self.bytes).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
            match reader.read(&mut chunk[..wanted]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.take_in(&chunk[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes in what comes next.
    pub fn take_in(&mut self, chunk: &[u8]) {
        self.hasher.update(chunk);
        self.bytes += chunk.len() as u64;
        self.line_breaks += chunk.iter().filter(|byte| **byte == b'\n').count() as u64;
    }

    /// The line in which the next byte stands, from 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.line_breaks + 1
    }

    /// What was taken in.
    #[must_use]
    pub fn read(&self) -> ReadBytes {
        ReadBytes { bytes: self.bytes, hash: self.hasher.digest128() }
    }
}
