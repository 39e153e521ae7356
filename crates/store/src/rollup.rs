//! Rollups: declared counts and sums, kept in the same commit as the rows.
//!
//! An entry's key is the key form of the grouping columns and the partition's number; its value is the count of rows and then each sum,
//! as little-endian 64-bit numbers. An entry whose count is zero goes.

use crate::partition::Visible;
use crate::tree::{KeyRange, PackedMap, Pending};
use crate::words::{PARTITION_BYTES, PartitionId};
use rollcall_schema::{RollupSchema, Row, TableSchema, Value, key};

/// The count and the sums of one group, over the partitions that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many rows there are.
    pub count: u64,
    /// The sums, in the order that the rollup declares them.
    pub sums: Vec<u64>,
}

pub(crate) fn width(rollup: &RollupSchema) -> usize {
    8 * (1 + rollup.sums.len())
}

/// Whether the row counts, by the boolean column that the rollup or index names.
#[inline]
pub(crate) fn includes<R: Row>(only_where: Option<usize>, row: &R) -> bool {
    only_where.is_none_or(|column| matches!(row.value(column), Value::Boolean(true)))
}

fn put_key<R: Row>(out: &mut Vec<u8>, schema: &TableSchema, rollup: &RollupSchema, partition: PartitionId, row: &R) {
    for &column in rollup.key {
        key::put_value(out, row.value(column), schema.columns[column].nullable);
    }
    out.extend_from_slice(&partition.bytes());
}

fn summand<R: Row>(row: &R, column: usize) -> u64 {
    match row.value(column) {
        Value::Unsigned(number) => number,
        _ => 0,
    }
}

/// Whether a change from `old` to `new` within one partition leaves the rollup as it is.
fn unaffected<R: Row>(rollup: &RollupSchema, old: &R, new: &R) -> bool {
    let same = |column: &usize| old.value(*column).compare(&new.value(*column)).is_eq();
    includes(rollup.only_where, old) == includes(rollup.only_where, new)
        && (!includes(rollup.only_where, new) || rollup.key.iter().chain(rollup.sums).all(same))
}

/// Notes what a change of one row does to a rollup.
pub(crate) fn change<R: Row>(
    pending: &mut Pending,
    schema: &TableSchema,
    rollup: &RollupSchema,
    old: Option<(PartitionId, &R)>,
    new: Option<(PartitionId, &R)>,
) {
    if let (Some((old_partition, old)), Some((new_partition, new))) = (old, new)
        && old_partition == new_partition
        && unaffected(rollup, old, new)
    {
        return;
    }
    for (side, more) in [(old, false), (new, true)] {
        let Some((partition, row)) = side.filter(|(_, row)| includes(rollup.only_where, *row)) else { continue };
        let numbers = std::iter::once(1).chain(rollup.sums.iter().map(|column| summand(row, *column)));
        let numbers = numbers.map(|number| if more { number } else { number.wrapping_neg() });
        pending.add(|out| put_key(out, schema, rollup, partition, row), numbers);
    }
}

/// The totals of the group whose key starts with `prefix`, over the partitions that may be seen.
pub(crate) fn totals(map: &PackedMap, rollup: &RollupSchema, prefix: Vec<u8>, visible: Option<&Visible>) -> Totals {
    let mut totals = Totals { count: 0, sums: vec![0; rollup.sums.len()] };
    for entry in map.range(KeyRange::starting_with(prefix)) {
        let partition = PartitionId::from_bytes(&entry.tail::<PARTITION_BYTES>());
        if visible.is_none_or(|visible| visible.contains(partition)) {
            let (cells, _) = entry.value.as_chunks::<8>();
            let mut numbers = cells.iter().map(|cell| u64::from_le_bytes(*cell));
            totals.count += numbers.next().unwrap_or(0);
            totals.sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum = sum.wrapping_add(number));
        }
    }
    totals
}
