//! Where records come from: one reading thread for each worker.

pub mod decode;
pub mod end;
pub mod files;
pub mod kafka;
