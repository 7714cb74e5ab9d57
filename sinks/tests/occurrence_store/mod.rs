//! What every [`OccurrenceStore`](floodmark_sinks::OccurrenceStore) promises, whichever database it is.
//!
//! Each promise takes a store that holds nothing yet.

pub(crate) mod inspect;
pub(crate) mod keys;
pub(crate) mod records;
pub(crate) mod versions;
