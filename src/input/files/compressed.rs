//! The bytes of a file: as they are, or decompressed where it is gzip or zstd, which its first bytes tell.
//!
//! Offsets are those of the decompressed bytes, and so is the head by which a file is known: compressing a log does not
//! make another one of it.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// A zstd stream may ask for a window of this many bytes as a power of two: more memory than that is refused.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// It is not.
    None,
    /// gzip, of any number of members.
    Gzip,
    /// zstd, of any number of frames.
    Zstd,
}

impl Compression {
    fn of(first_bytes: &[u8]) -> Self {
        if first_bytes.starts_with(&GZIP) {
            Self::Gzip
        } else if first_bytes.starts_with(&ZSTD) {
            Self::Zstd
        } else {
            Self::None
        }
    }
}

/// A file that is read as if it were not compressed.
pub struct Bytes {
    /// How it is compressed.
    pub compression: Compression,
    /// Its size on disk.
    pub disk_bytes: u64,
    reader: Box<dyn Read + Send>,
}

impl Bytes {
    /// Opens a file. `count` sees how many bytes of the disk each read takes.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn open(path: &Path, count: impl FnMut(u64) + Send + 'static) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let disk_bytes = file.metadata()?.len();
        let mut first_bytes = Vec::new();
        file.by_ref().take(ZSTD.len() as u64).read_to_end(&mut first_bytes)?;
        let compression = Compression::of(&first_bytes);
        file.seek(SeekFrom::Start(0))?;
        let counted = Counted { file, count };
        let reader: Box<dyn Read + Send> = match compression {
            Compression::None => Box::new(counted),
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::new(counted))),
            Compression::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(counted)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Box::new(decoder)
            }
        };
        Ok(Self { compression, disk_bytes, reader })
    }
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

struct Counted<F> {
    file: File,
    count: F,
}

impl<F: FnMut(u64)> Read for Counted<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        (self.count)(read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let mut opened = Bytes::open(file.path(), |_| {})?;
        let mut found = Vec::new();
        opened.read_to_end(&mut found).map(|_| found)
    }

    #[test]
    fn a_compressed_file_is_the_same_as_the_plain_one() {
        let plain = "some line of a log\n".repeat(20_000).into_bytes();
        let (one, other) = plain.split_at(7);
        let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
        for file in [
            plain.clone(),
            gzip(&plain),
            [gzip(one), gzip(other)].concat(),
            zstd(&plain),
            [zstd(one), zstd(other)].concat(),
        ] {
            assert_eq!(read(&file).unwrap(), plain);
        }
        assert_eq!(read(b"").unwrap(), b"");
    }

    #[test]
    fn a_file_that_is_cut_off_is_an_error_and_not_its_end() {
        let whole = gzip(&"x y z ".repeat(1_000).into_bytes());
        assert!(read(&whole[..whole.len() - 9]).is_err());
    }
}
