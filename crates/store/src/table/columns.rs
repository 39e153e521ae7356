//! The columns that a table's keys are made of, taken out of all rows in one pass.
//!
//! A start builds every index at once. Walking the rows once for each would fetch each row from memory as often, and sorting keys as bytes compares
//! again and again what most of them share. So one pass, on both cores, takes the columns out into plain arrays of numbers whose order is the order of
//! the values: numbers as they are, texts as their rank among the different texts. A key is then a few bits of each, put together to one number (a
//! code), and sorting an index is sorting numbers; its bytes are written once, in order.

use crate::page::Stored;
use crate::words::RowNumber;
use foldhash::HashMap;
use rollcall_schema::{BlobReference, ColumnType, Row, TableSchema, Time, Value, key};
use std::sync::Arc;

/// Bits of a code.
const CODE_BITS: u32 = u128::BITS;

const SIGN: u64 = 1 << 63;

/// A column, or several taken together, that a key is made of: positions in the schema.
type Source = &'static [usize];

/// How the values of a source are kept.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A boolean or a word, or null.
    Word,
    /// A number of 64 bits.
    Number,
    /// A number of 64 bits or null, or an identifier.
    Wide,
    /// Anything else: its key form, as one of the different ones.
    Bytes,
}

impl Kind {
    fn of(schema: &TableSchema, source: Source) -> Kind {
        let [column] = source else { return Kind::Bytes };
        let column = &schema.columns[*column];
        match (column.column_type, column.nullable) {
            (ColumnType::Boolean | ColumnType::Enumeration(_), _) => Kind::Word,
            (ColumnType::Unsigned | ColumnType::Signed | ColumnType::Time, false) => Kind::Number,
            (ColumnType::Unsigned | ColumnType::Signed | ColumnType::Time, true) | (ColumnType::Identifier, false) => {
                Kind::Wide
            }
            _ => Kind::Bytes,
        }
    }

    /// The most bits that a source takes in a code.
    fn bits(schema: &TableSchema, source: Source) -> u32 {
        match Kind::of(schema, source) {
            Kind::Word => 9,
            Kind::Bytes => 32,
            Kind::Number => 64,
            Kind::Wide if schema.columns[source[0]].nullable => 65,
            Kind::Wide => 128,
        }
    }
}

/// A value as a number of the same order; null is less than all others.
fn number_of(value: Value<'_>, nullable: bool) -> u128 {
    let number = match value {
        Value::Boolean(value) => u128::from(value),
        Value::Enumeration(value) => u128::from(value),
        Value::Unsigned(value) => u128::from(value),
        Value::Signed(value) => u128::from(value as u64 ^ SIGN),
        Value::Time(value) => u128::from(value.micros() as u64 ^ SIGN),
        Value::Identifier(value) => value,
        Value::Null | Value::Text(_) | Value::Bytes(_) | Value::Nested(_) => return 0,
    };
    number + u128::from(nullable)
}

/// The value that [`number_of`] made this number of.
fn value_of(number: u128, column_type: ColumnType, nullable: bool) -> Value<'static> {
    let Some(number) = number.checked_sub(u128::from(nullable)) else { return Value::Null };
    match column_type {
        ColumnType::Boolean => Value::Boolean(number != 0),
        ColumnType::Enumeration(_) => Value::Enumeration(number as u8),
        ColumnType::Unsigned => Value::Unsigned(number as u64),
        ColumnType::Signed => Value::Signed((number as u64 ^ SIGN) as i64),
        ColumnType::Time => Value::Time(Time::from_micros((number as u64 ^ SIGN) as i64)),
        ColumnType::Identifier => Value::Identifier(number),
        ColumnType::Text | ColumnType::Bytes | ColumnType::Nested(_) => Value::Null,
    }
}

/// The sources that a table's keys, conditions and sums need.
fn sources_of(schema: &'static TableSchema) -> Vec<Source> {
    let keys = schema.indexes.iter().map(|index| index.columns).chain(schema.rollups.iter().map(|rollup| rollup.key));
    let mut sources: Vec<Source> = keys.chain([schema.partition]).flat_map(|key| split(schema, key)).collect();
    let conditions = schema.indexes.iter().map(|index| &index.only_where);
    let conditions = conditions.chain(schema.rollups.iter().map(|rollup| &rollup.only_where));
    sources.extend(conditions.map(Option::as_slice).filter(|condition| !condition.is_empty()));
    sources.extend(schema.rollups.iter().flat_map(|rollup| rollup.sums.chunks(1)));
    sources.sort_unstable();
    sources.dedup();
    sources
}

/// The sources of a key: its columns, or if they might not fit a code, all of them as one.
fn split(schema: &TableSchema, key: Source) -> impl Iterator<Item = Source> {
    let bits: u32 = key.chunks(1).map(|column| Kind::bits(schema, column)).sum();
    key.chunks(if bits <= CODE_BITS { 1 } else { key.len() })
}

/// How many texts a dictionary knows by where they lie, as bits: with a few thousand names, few take each other's place.
const ADDRESS_BITS: u32 = 12;

/// Spreads addresses, which are multiples of what a name takes, over all slots.
const ADDRESS_SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Different key forms, numbered as they come.
struct Dictionary {
    numbers: HashMap<Box<[u8]>, u32>,
    /// Rows share their names, so most texts were met before at the same place: address, length and number of some of them.
    met: Vec<(usize, usize, u32)>,
    scratch: Vec<u8>,
}

impl Dictionary {
    fn new() -> Dictionary {
        Dictionary { numbers: HashMap::default(), met: vec![(0, 0, 0); 1 << ADDRESS_BITS], scratch: Vec::new() }
    }

    /// The number of the key form of these values of a row. Rows must stay where they are as long as more are added.
    fn number<R: Row>(&mut self, schema: &TableSchema, source: Source, row: &R) -> u32 {
        let text = match source {
            [column] => match row.value(*column) {
                Value::Text(text) => text,
                _ => return self.number_of_key(schema, source, row),
            },
            _ => return self.number_of_key(schema, source, row),
        };
        let (address, length) = (text.as_ptr().addr(), text.len());
        let slot = ((address as u64).wrapping_mul(ADDRESS_SPREAD) >> (u64::BITS - ADDRESS_BITS)) as usize;
        let (met, length_met, number) = self.met[slot];
        if (met, length_met) == (address, length) {
            return number;
        }
        let number = self.number_of_key(schema, source, row);
        self.met[slot] = (address, length, number);
        number
    }

    fn number_of_key<R: Row>(&mut self, schema: &TableSchema, source: Source, row: &R) -> u32 {
        self.scratch.clear();
        for &column in source {
            key::put_value(&mut self.scratch, row.value(column), schema.columns[column].nullable);
        }
        if let Some(number) = self.numbers.get(&*self.scratch) {
            return *number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(self.scratch.as_slice().into(), number);
        number
    }
}

/// One source of the rows of a part.
enum Cells {
    Words(Vec<u16>),
    Numbers(Vec<u64>),
    Wide(Vec<u128>),
    /// Numbers in the dictionary of the part, and when all parts are there, ranks among the byte strings of all.
    Bytes(Vec<u32>, Dictionary),
}

impl Cells {
    fn new(kind: Kind, rows: usize) -> Cells {
        match kind {
            Kind::Word => Cells::Words(Vec::with_capacity(rows)),
            Kind::Number => Cells::Numbers(Vec::with_capacity(rows)),
            Kind::Wide => Cells::Wide(Vec::with_capacity(rows)),
            Kind::Bytes => Cells::Bytes(Vec::with_capacity(rows), Dictionary::new()),
        }
    }

    #[inline]
    fn get(&self, row: usize) -> u128 {
        match self {
            Cells::Words(cells) => u128::from(cells[row]),
            Cells::Numbers(cells) => u128::from(cells[row]),
            Cells::Wide(cells) => cells[row],
            Cells::Bytes(cells, _) => u128::from(cells[row]),
        }
    }

    /// The least and the greatest cell.
    fn span(&self) -> Option<(u128, u128)> {
        fn span<T: Copy + Ord + Into<u128>>(cells: &[T]) -> Option<(u128, u128)> {
            Some((cells.iter().min().copied()?.into(), cells.iter().max().copied()?.into()))
        }
        match self {
            Cells::Words(cells) => span(cells),
            Cells::Numbers(cells) => span(cells),
            Cells::Wide(cells) => span(cells),
            Cells::Bytes(cells, _) => span(cells),
        }
    }
}

/// Some rows of a table, in the order in which they came, with their columns.
pub(super) struct Part<R> {
    schema: &'static TableSchema,
    pub(super) rows: Vec<(RowNumber, Arc<Stored<R>>)>,
    sources: Vec<(Source, Cells)>,
    /// The blobs that the rows name.
    pub(super) blobs: Vec<BlobReference>,
}

impl<R: Row> Part<R> {
    /// A part with room for so many rows: none of its arrays is copied because it grew, and room that is not used is never touched.
    pub(super) fn new(rows: usize) -> Part<R> {
        let schema = R::schema();
        let sources = sources_of(schema).into_iter();
        let sources = sources.map(|source| (source, Cells::new(Kind::of(schema, source), rows))).collect();
        Part { schema, rows: Vec::with_capacity(rows), sources, blobs: Vec::new() }
    }

    pub(super) fn add(&mut self, number: RowNumber, stored: Arc<Stored<R>>) {
        for (source, cells) in &mut self.sources {
            let cell = |column: usize| number_of(stored.row.value(column), self.schema.columns[column].nullable);
            match cells {
                Cells::Words(cells) => cells.push(cell(source[0]) as u16),
                Cells::Numbers(cells) => cells.push(cell(source[0]) as u64),
                Cells::Wide(cells) => cells.push(cell(source[0])),
                Cells::Bytes(cells, dictionary) => cells.push(dictionary.number(self.schema, source, &stored.row)),
            }
        }
        stored.row.blobs(&mut |blob| self.blobs.push(*blob));
        self.rows.push((number, stored));
    }
}

/// Where the cells of one source are in the code of a key.
struct Field {
    source: usize,
    /// The least cell, which is left out of codes.
    low: u128,
    bits: u32,
}

/// How the columns of a key are put together.
pub(super) struct Layout {
    fields: Vec<Field>,
    pub(super) bits: u32,
}

/// The columns of all rows.
pub(super) struct Columns {
    schema: &'static TableSchema,
    sources: Vec<Source>,
    /// For each part, the cells of each source.
    parts: Vec<(usize, Vec<Cells>)>,
    /// For each source of bytes, the different ones in order.
    texts: Vec<Vec<Box<[u8]>>>,
}

pub(super) type Rows<R> = Vec<(RowNumber, Arc<Stored<R>>)>;

impl Columns {
    /// The columns of these parts, and their rows.
    pub(super) fn of<R: Row>(parts: Vec<Part<R>>) -> (Columns, Vec<Rows<R>>) {
        let schema = R::schema();
        let sources = sources_of(schema);
        let (mut cells, mut rows) = (Vec::new(), Vec::new());
        for part in parts {
            cells.push((part.rows.len(), part.sources.into_iter().map(|(_, cells)| cells).collect()));
            rows.push(part.rows);
        }
        let texts = (0..sources.len()).map(|source| rank(&mut cells, source)).collect();
        (Columns { schema, sources, parts: cells, texts }, rows)
    }

    /// How the columns of a key of the schema are put together.
    pub(super) fn layout(&self, key: Source) -> Layout {
        let fields: Vec<Field> = split(self.schema, key).filter_map(|source| self.field(source)).collect();
        let bits = fields.iter().map(|field| field.bits).sum();
        Layout { fields, bits }
    }

    fn field(&self, source: Source) -> Option<Field> {
        let source = self.sources.iter().position(|other| *other == source)?;
        let spans = self.parts.iter().filter_map(|(_, cells)| cells[source].span());
        let (low, high) = spans.reduce(|left, right| (left.0.min(right.0), left.1.max(right.1)))?;
        Some(Field { source, low, bits: u128::BITS - (high - low).leading_zeros() })
    }

    /// Calls `visit` with each row that counts, by its place in the order in which rows came, and with the code of its key.
    pub(super) fn each_code(&self, layout: &Layout, only_where: Option<usize>, mut visit: impl FnMut(usize, u128)) {
        let condition = only_where.and_then(|column| self.sources.iter().position(|source| *source == [column]));
        let mut before = 0;
        for (rows, cells) in &self.parts {
            for row in 0..*rows {
                if condition.is_none_or(|condition| self.is_true(condition, cells[condition].get(row))) {
                    visit(before + row, layout.code(cells, row));
                }
            }
            before += rows;
        }
    }

    /// The code of the key of one row.
    #[inline]
    pub(super) fn code_of(&self, layout: &Layout, mut row: usize) -> u128 {
        for (rows, cells) in &self.parts {
            match row.checked_sub(*rows) {
                Some(rest) => row = rest,
                None => return layout.code(cells, row),
            }
        }
        0
    }

    fn is_true(&self, source: usize, cell: u128) -> bool {
        cell == 1 + u128::from(self.schema.columns[self.sources[source][0]].nullable)
    }

    /// Calls `visit` with each row and what it adds to the sum of an unsigned column; null adds nothing.
    pub(super) fn each_summand(&self, column: usize, mut visit: impl FnMut(usize, u64)) {
        let Some(source) = self.sources.iter().position(|source| *source == [column]) else { return };
        let schema = self.schema.columns[column];
        let mut before = 0;
        for (rows, cells) in &self.parts {
            for row in 0..*rows {
                if let Value::Unsigned(number) = value_of(cells[source].get(row), schema.column_type, schema.nullable) {
                    visit(before + row, number);
                }
            }
            before += rows;
        }
    }

    /// Appends the bytes of a key.
    pub(super) fn put_key(&self, out: &mut Vec<u8>, layout: &Layout, code: u128) {
        let mut rest = layout.bits;
        for field in &layout.fields {
            rest -= field.bits;
            let cell = code.checked_shr(rest).unwrap_or(0) & u128::MAX.checked_shr(CODE_BITS - field.bits).unwrap_or(0);
            let (source, cell) = (self.sources[field.source], field.low + cell);
            if Kind::of(self.schema, source) == Kind::Bytes {
                out.extend_from_slice(&self.texts[field.source][cell as usize]);
            } else {
                let column = &self.schema.columns[source[0]];
                key::put_value(out, value_of(cell, column.column_type, column.nullable), column.nullable);
            }
        }
    }
}

impl Layout {
    #[inline]
    fn code(&self, cells: &[Cells], row: usize) -> u128 {
        let mut code: u128 = 0;
        for field in &self.fields {
            code = code.checked_shl(field.bits).unwrap_or(0) | (cells[field.source].get(row) - field.low);
        }
        code
    }
}

/// Makes ranks of the dictionary numbers of a source in all parts; gives the byte strings in order of rank.
fn rank(parts: &mut [(usize, Vec<Cells>)], source: usize) -> Vec<Box<[u8]>> {
    let mut different: Vec<(Box<[u8]>, usize, u32)> = Vec::new();
    for (part, (_, cells)) in parts.iter_mut().enumerate() {
        if let Cells::Bytes(_, dictionary) = &mut cells[source] {
            let numbered = std::mem::take(&mut dictionary.numbers);
            different.extend(numbered.into_iter().map(|(bytes, number)| (bytes, part, number)));
        }
    }
    different.sort_unstable();
    let mut ranks: Vec<Vec<u32>> = parts.iter().map(|_| vec![0; different.len()]).collect();
    let mut texts: Vec<Box<[u8]>> = Vec::new();
    for (bytes, part, number) in different {
        if texts.last() != Some(&bytes) {
            texts.push(bytes);
        }
        ranks[part][number as usize] = texts.len() as u32 - 1;
    }
    for ((_, cells), ranks) in parts.iter_mut().zip(ranks) {
        if let Cells::Bytes(cells, _) = &mut cells[source] {
            cells.iter_mut().for_each(|cell| *cell = ranks[*cell as usize]);
        }
    }
    texts
}
