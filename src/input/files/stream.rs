//! Streams: bytes that come once, from another thread, and at their own pace.

use crate::pipeline::stop::Stop;
use crossbeam_channel::{Receiver, RecvTimeoutError, SendError, bounded};
use floodmark_sinks::sqlite::InputFile;
use std::io::Read;
use std::time::Duration;

/// Chunks on their way from the thread that reads.
const CHUNKS: usize = 16;
const CHUNK_BYTES: usize = 64 << 10;
/// How long a stream that began may pause before its first bytes are taken as they are.
const HEAD_PAUSE: Duration = Duration::from_millis(500);

/// The reading end.
#[derive(Debug)]
pub struct Stream {
    chunks: Receiver<Vec<u8>>,
    /// What was read to identify it, and not taken yet.
    head: Vec<u8>,
}

/// The writing end; the stream ends when it is dropped.
#[derive(Debug)]
pub struct Sender(crossbeam_channel::Sender<Vec<u8>>);

/// What a stream gives next.
pub(super) enum Next {
    Chunk(Vec<u8>),
    Nothing,
    End,
}

/// A stream within this process.
#[must_use]
pub fn channel() -> (Sender, Stream) {
    let (sender, chunks) = bounded(CHUNKS);
    (Sender(sender), Stream { chunks, head: Vec::new() })
}

impl Sender {
    /// Sends bytes; waits while the reader is behind. `false` when it is gone.
    #[must_use]
    pub fn send(&self, bytes: Vec<u8>) -> bool {
        self.0.send(bytes).is_ok()
    }
}

impl Stream {
    /// Standard input. Its thread ends with the input or the process: a blocked read cannot be called off.
    pub(super) fn standard_input() -> std::io::Result<Self> {
        let (sender, stream) = channel();
        std::thread::Builder::new().name("stdin".into()).spawn(move || {
            let mut input = std::io::stdin().lock();
            loop {
                let mut chunk = vec![0; CHUNK_BYTES];
                match input.read(&mut chunk) {
                    Ok(0) => return,
                    Ok(length) => {
                        chunk.truncate(length);
                        if let Err(SendError(_)) = sender.0.send(chunk) {
                            return;
                        }
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        tracing::error!(%error, "standard input cannot be read further: taken as its end");
                        return;
                    }
                }
            }
        })?;
        Ok(stream)
    }

    /// The first bytes, by which it is known. Waits for enough of them, its end, or a pause after the first.
    pub(super) fn head(&mut self, stop: &Stop) -> &[u8] {
        while self.head.len() < InputFile::HEAD_BYTES_MAX && !stop.is_stopped() {
            match self.chunks.recv_timeout(HEAD_PAUSE) {
                Ok(chunk) => self.head.extend(chunk),
                Err(RecvTimeoutError::Timeout) if self.head.is_empty() => {}
                Err(_) => break,
            }
        }
        &self.head
    }

    /// The next bytes; waits for them no longer than this.
    pub(super) fn next(&mut self, wait: Duration) -> Next {
        if !self.head.is_empty() {
            return Next::Chunk(std::mem::take(&mut self.head));
        }
        match self.chunks.recv_timeout(wait) {
            Ok(chunk) => Next::Chunk(chunk),
            Err(RecvTimeoutError::Timeout) => Next::Nothing,
            Err(RecvTimeoutError::Disconnected) => Next::End,
        }
    }
}
