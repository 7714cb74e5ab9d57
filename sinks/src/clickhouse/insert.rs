//! Blocks into the tables, in as few requests as the server's limits allow.

use super::classify::permanent;
use super::connection::Connection;
use crate::StoreError;
use crate::rows::{DEAD_LETTER_COLUMNS, OCCURRENCE_COLUMNS, RowBlock, Rows};
use bytes::Bytes;
use std::collections::BTreeSet;

/// Days, which are partitions, of one insert: the server refuses more than 100.
const DAYS_MAX: usize = 90;

/// Rows of one insert: up to here the server makes one part of a day's rows.
const ROWS_MAX: usize = 1_000_000;

/// Bytes of one insert, unless one block alone has more: what the server holds in memory for it.
const BYTES_MAX: usize = 256 << 20;

/// Inserts all rows of all blocks. When it returns, the server has stored them.
pub(super) async fn insert(connection: &Connection, blocks: &[RowBlock]) -> Result<(), StoreError> {
    for batch in batches(blocks)? {
        let occurrences = pieces(batch, |block| &block.occurrences);
        insert_rows(connection, "insert occurrences", "occurrences", &OCCURRENCE_COLUMNS, occurrences).await?;
        let unmatched = pieces(batch, |block| &block.unmatched);
        insert_rows(connection, "insert unmatched", "unmatched", &OCCURRENCE_COLUMNS, unmatched).await?;
        let dead_letters = pieces(batch, |block| &block.dead_letters);
        insert_rows(connection, "insert dead letters", "dead_letters", &DEAD_LETTER_COLUMNS, dead_letters).await?;
    }
    Ok(())
}

/// One table's rows of some blocks, not copied.
fn pieces(blocks: &[RowBlock], rows: fn(&RowBlock) -> &Rows) -> Vec<Bytes> {
    blocks.iter().map(rows).filter(|rows| !rows.is_empty()).map(Rows::shared).collect()
}

/// Cuts the blocks, in their order, where a limit is reached.
fn batches(blocks: &[RowBlock]) -> Result<Vec<&[RowBlock]>, StoreError> {
    let mut batches = Vec::new();
    let mut first = 0;
    let (mut days, mut rows, mut bytes) = (BTreeSet::new(), 0, 0);
    for (n, block) in blocks.iter().enumerate() {
        if block.days.len() > DAYS_MAX {
            let days = block.days.len();
            return Err(permanent(
                "insert",
                format!("a block spans {days} days; at most {DAYS_MAX} go into one insert"),
            ));
        }
        days.extend(&block.days);
        rows += block.rows();
        bytes += block.bytes();
        if n > first && (days.len() > DAYS_MAX || rows > ROWS_MAX || bytes > BYTES_MAX) {
            batches.push(&blocks[first..n]);
            first = n;
            (days, rows, bytes) = (block.days.clone(), block.rows(), block.bytes());
        }
    }
    batches.push(&blocks[first..]);
    Ok(batches)
}

async fn insert_rows(
    connection: &Connection,
    action: &'static str,
    table: &str,
    columns: &[&str],
    pieces: Vec<Bytes>,
) -> Result<(), StoreError> {
    if pieces.is_empty() {
        return Ok(());
    }
    let columns = columns.join("`, `");
    let mut insert = connection
        .client()
        .insert_formatted_with(format!("INSERT INTO {table} (`{columns}`) FORMAT RowBinary"))
        // The default of current releases answers before the rows are stored.
        .with_setting("async_insert", "0")
        // Replacing inside each new part costs half of an insert (measured 2.5 instead of 5.1 us of CPU a row), merges
        // do it anyway, and FINAL is as fast and as right without.
        .with_setting("optimize_on_insert", "0")
        // A replicated table drops a block that it has seen before, even if its rows were deleted since. Identity makes
        // repeats harmless here, hashing blocks is not needed.
        .with_setting("insert_deduplicate", "0")
        // The status of the answer is that of the whole insert.
        .with_setting("wait_end_of_query", "1");
    let request = async {
        for piece in pieces {
            insert.send(piece).await?;
        }
        insert.end().await
    };
    connection.inserting(action, request).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn spanning(days: std::ops::Range<i32>) -> RowBlock {
        RowBlock { days: days.collect(), ..RowBlock::default() }
    }

    #[test]
    fn blocks_share_an_insert_while_their_days_fit() {
        let blocks = [spanning(0..50), spanning(20..90), spanning(89..91), spanning(0..1)];
        let lengths: Vec<usize> = batches(&blocks).unwrap().iter().map(|batch| batch.len()).collect();
        assert_eq!(lengths, [2, 2]);
        assert!(!batches(&[spanning(0..91)]).unwrap_err().is_transient());
    }

    #[test]
    fn every_block_is_in_exactly_one_batch() {
        let blocks: Vec<RowBlock> = (0..40).map(|n| spanning(n * 7..n * 7 + 45)).collect();
        let batches = batches(&blocks).unwrap();
        assert_eq!(batches.iter().map(|batch| batch.len()).sum::<usize>(), blocks.len());
        assert!(batches.iter().all(|batch| !batch.is_empty()));
    }
}
