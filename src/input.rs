//! Where records come from: one reading thread for each worker.

pub mod decode;
pub mod kafka;
