//! The plain structs behind the operators: no timely types, tested with values.

pub mod candidate;
pub mod closings;
pub mod crowds;
pub mod history;
pub mod judge;
pub mod late;
pub mod merged_watermark;
pub mod pane;
pub mod panes;
pub mod partitions;
pub mod rule_windows;
pub mod stretch;
