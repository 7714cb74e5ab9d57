//! `what-if`: history under other rules, beside the incidents that stand today.
//!
//! # Semantics
//! - One pass over the occurrence store for all candidates: counts per bug and bucket, distinct occurrences only, of what
//!   the base rule matches. The bucket is the greatest that every candidate's own buckets are made of.
//! - The first candidate is the rule of today as the engine judges by it: each window on the terms of its own version
//!   (Q51), each tenant on its own threshold. Its incidents are those that stand, unless something is wrong. Any other
//!   candidate has the same terms in all windows, and changes nothing for tenants with a threshold of their own.
//! - A candidate's incidents are those that W-4 demands, judged by the predicate of the live judge, and its episodes those
//!   of W-11. A page is an episode that begins in the range.
//! - An incident is *new* when no incident of today touches its window, and one of today has *vanished* when it touches no
//!   window with an incident. Between windows of one length that is identity. Of today are the base rule's incidents that
//!   are open or closed; superseded and withdrawn ones page nobody.
//! - Nothing is written.
//!
//! # Memory
//! History is read in pages of whole days, at most [`ROWS_PER_PAGE`] stored rows each or a single day, and for windows
//! that no day is a multiple of, of as many days as make one. A page takes about 120 B for each of its buckets with
//! occurrences of a bug, so at most that for each row. Beyond the pages stay: a number for each bug that had an incident
//! under a candidate, and lists of [`LISTED_MAX`] incidents.

mod answer;
mod ask;
mod notes;
mod plan;
mod question;
mod tally;

pub use answer::{Answer, CandidateAnswer, Difference, HistoryRange, Listed, Noisy};
pub use ask::ask;
pub use plan::ROWS_PER_PAGE;
pub use question::{CANDIDATES_MAX, Choices, Question};
pub use tally::LISTED_MAX;
