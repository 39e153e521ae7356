//! The stored form of a row: a list of fields, each a tag, a length and so many bytes.
//!
//! ```text
//! field := tag (varint)  length (varint)  bytes
//! row   := field*                          ascending tags are written, any order is read
//! ```
//!
//! A varint is seven bits a byte, least significant first, the high bit set on all but the last.

use thiserror::Error;

/// Fields of a row that this version does not know. They are kept as they came and written again behind the known ones, so that a row
/// that passed through an older version loses nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
// One word in every row, where a vector would take three: there is hardly ever anything in it.
#[allow(clippy::box_collection)]
pub struct Unknown(Option<Box<Vec<u8>>>);

impl Unknown {
    /// Keeps one more field.
    pub fn keep(&mut self, tag: u32, bytes: &[u8]) {
        put_field(self.0.get_or_insert_default(), tag, bytes);
    }

    /// The kept fields, in stored form.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Bytes held on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |kept| kept.capacity() + size_of::<Vec<u8>>())
    }
}

/// Why the bytes of one field are not a value of its column.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FieldError {
    /// The field ends before its value does, or goes on after it.
    #[error("expected {expected} bytes, found {found}")]
    Length {
        /// What the type needs.
        expected: usize,
        /// What is there.
        found: usize,
    },
    /// A number that does not fit the column.
    #[error("the number {0} is out of range")]
    Range(u64),
    /// Text that is not UTF-8.
    #[error("the text is not UTF-8")]
    Text,
    /// A word number that this version has no word for.
    #[error("no word has the number {0}")]
    Word(u64),
    /// A varint that is cut short or longer than ten bytes.
    #[error("a number is cut short")]
    Number,
    /// A record inside the field is broken.
    #[error("a record inside the list is broken")]
    Record,
}

/// Why bytes are not a row of a table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The list of fields is cut short.
    #[error("decoding a row of {table}: the bytes end inside a field at offset {offset}")]
    Cut {
        /// The table.
        table: &'static str,
        /// Where the broken field starts.
        offset: usize,
    },
    /// A field does not hold a value of its column.
    #[error("decoding a row of {table}: field {column} (tag {tag})")]
    Field {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// Its number.
        tag: u32,
        /// What is wrong.
        #[source]
        source: FieldError,
    },
    /// A field that has no default is not there.
    #[error("decoding a row of {table}: field {column} (tag {tag}) is missing and has no default")]
    Missing {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// Its number.
        tag: u32,
    },
}

/// Appends a varint.
pub fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a varint off the front; `None` if it is cut short or does not fit 64 bits.
pub fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for position in 0..10 {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if position == 9 && byte > 1 {
            return None;
        }
        number |= u64::from(byte & 0x7f) << (position * 7);
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Takes `length` bytes off the front; `None` if there are fewer.
pub fn take_bytes<'a>(bytes: &mut &'a [u8], length: u64) -> Option<&'a [u8]> {
    let length = usize::try_from(length).ok().filter(|length| *length <= bytes.len())?;
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    Some(taken)
}

/// Appends one field.
pub fn put_field(out: &mut Vec<u8>, tag: u32, bytes: &[u8]) {
    put_varint(out, u64::from(tag));
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends one field whose bytes `write` appends; its length is filled in after.
pub fn put_field_with(out: &mut Vec<u8>, tag: u32, write: impl FnOnce(&mut Vec<u8>)) {
    put_varint(out, u64::from(tag));
    let length_at = out.len();
    out.push(0);
    write(out);
    let length = out.len() - length_at - 1;
    if length < 0x80 {
        out[length_at] = length as u8;
        return;
    }
    // A long field is rare: make room for the longer length.
    let mut prefix = Vec::with_capacity(10);
    put_varint(&mut prefix, length as u64);
    out.splice(length_at..=length_at, prefix);
}

/// Walks the fields of a stored row or record.
#[derive(Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Fields<'a> {
    /// The fields in these bytes.
    pub fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { rest: bytes, length: bytes.len() }
    }

    /// The next field, `None` at the end.
    ///
    /// # Errors
    /// The offset at which the broken field starts.
    pub fn take(&mut self) -> Result<Option<(u32, &'a [u8])>, usize> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let offset = self.length - self.rest.len();
        let mut rest = self.rest;
        let field = take_varint(&mut rest)
            .and_then(|tag| u32::try_from(tag).ok())
            .and_then(|tag| Some((tag, take_varint(&mut rest)?)))
            .and_then(|(tag, length)| Some((tag, take_bytes(&mut rest, length)?)));
        self.rest = rest;
        field.map(Some).ok_or(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::{Fields, put_field, put_field_with, put_varint, take_varint};

    #[test]
    fn varints_come_back_and_overlong_ones_are_refused() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            let mut rest = bytes.as_slice();
            assert_eq!(take_varint(&mut rest), Some(number));
            assert!(rest.is_empty());
            for cut in 0..bytes.len() {
                assert_eq!(take_varint(&mut &bytes[..cut]), None);
            }
        }
        assert_eq!(take_varint(&mut &[0xff; 10][..]), None);
    }

    #[test]
    fn a_field_written_in_place_equals_one_written_from_bytes() {
        for length in [0, 1, 127, 128, 300, 20_000] {
            let payload = vec![7u8; length];
            let (mut plain, mut in_place) = (vec![1, 2], vec![1, 2]);
            put_field(&mut plain, 300, &payload);
            put_field_with(&mut in_place, 300, |out| out.extend_from_slice(&payload));
            assert_eq!(plain, in_place);
            assert_eq!(Fields::new(&plain[2..]).take(), Ok(Some((300, payload.as_slice()))));
        }
    }
}
