//! What this version cannot do yet, by scenario, and why. A test proves that each entry is needed and that nothing
//! else is: who builds a missing rule deletes its entries.

/// A rule that is not built yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// W-3: bursts over a window boundary.
    Bridges,
    /// W-8: judging windows anew for occurrences that come after their close.
    LateJudging,
    /// W-12, Q46: the `cardinality` incident.
    Cardinality,
}

/// The scenarios of occurrences that do not pass yet, each with what it needs. All others pass.
///
/// Not on it, though they are about bridges or lateness: O08 (bridges are off), O09 (an incident stands before the
/// bridge), O26 (the window before reaches N, and not late) and O30 (nothing comes late).
pub const PENDING: &[(&str, &[Missing])] = &[
    ("O01", &[Missing::Bridges]),
    ("O02", &[Missing::Bridges]),
    ("O03", &[Missing::Bridges]),
    ("O04", &[Missing::Bridges]),
    ("O05", &[Missing::Bridges]),
    ("O10", &[Missing::Bridges, Missing::LateJudging]),
    ("O24", &[Missing::LateJudging]),
    ("O25", &[Missing::Bridges, Missing::LateJudging]),
    ("O27", &[Missing::Bridges]),
    ("O28", &[Missing::Bridges, Missing::LateJudging]),
    ("O29", &[Missing::Bridges, Missing::LateJudging]),
    ("O31", &[Missing::LateJudging]),
    ("O35", &[Missing::Cardinality]),
    ("O36", &[Missing::Bridges]),
];

/// What a scenario still needs; empty: it passes.
#[must_use]
pub fn missing(id: &str) -> &'static [Missing] {
    PENDING.iter().find(|(pending, _)| *pending == id).map_or(&[], |(_, missing)| missing)
}
