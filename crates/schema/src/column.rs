//! What a Rust type must do to be a column.

use crate::codec::{put_varint, take_varint};
use crate::{ColumnType, FieldError, NamePool, SharedText, Time, Value};

/// A Rust type that can be a column of a row.
pub trait ColumnValue: Clone + PartialEq + Sized {
    /// What it holds.
    const TYPE: ColumnType;
    /// Whether it may hold nothing.
    const NULLABLE: bool = false;

    /// The value, borrowed.
    fn value(&self) -> Value<'_>;

    /// Appends the bytes of the stored field, without tag and length.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads the bytes of a stored field.
    ///
    /// # Errors
    /// If they are not a value of this type.
    fn decode(bytes: &[u8], names: &mut NamePool) -> Result<Self, FieldError>;

    /// True if nothing need be written: reading a row without the field gives this value by itself.
    fn is_absent(&self) -> bool {
        false
    }

    /// The value of a field that is not there, for types that have one by nature.
    fn absent() -> Option<Self> {
        None
    }

    /// Bytes held outside the value itself and not shared with other rows.
    fn heap_bytes(&self) -> usize {
        0
    }

    /// The blob that the value names, if it names one.
    fn blob(&self) -> Option<&BlobReference> {
        None
    }
}

/// A type that a computed column can have: one that borrows nothing.
pub trait ComputedValue: Copy {
    /// What it holds.
    const TYPE: ColumnType;
    /// Whether it may hold nothing.
    const NULLABLE: bool = false;
    /// The value.
    fn into_value(self) -> Value<'static>;
}

/// The name of a blob: the content hash of a value that is too large for a row and lies in a file beside the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobReference(pub [u8; 32]);

fn number(mut bytes: &[u8]) -> Result<u64, FieldError> {
    let number = take_varint(&mut bytes).ok_or(FieldError::Number)?;
    if bytes.is_empty() { Ok(number) } else { Err(FieldError::Length { expected: 0, found: bytes.len() }) }
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], FieldError> {
    bytes.try_into().map_err(|_| FieldError::Length { expected: N, found: bytes.len() })
}

macro_rules! unsigned_column {
    ($($integer:ty),*) => {$(
        impl ColumnValue for $integer {
            const TYPE: ColumnType = ColumnType::Unsigned;
            fn value(&self) -> Value<'_> {
                Value::Unsigned(u64::from(*self))
            }
            fn encode(&self, out: &mut Vec<u8>) {
                put_varint(out, u64::from(*self));
            }
            fn decode(bytes: &[u8], _names: &mut NamePool) -> Result<Self, FieldError> {
                let number = number(bytes)?;
                <$integer>::try_from(number).map_err(|_| FieldError::Range(number))
            }
        }
        impl ComputedValue for $integer {
            const TYPE: ColumnType = ColumnType::Unsigned;
            fn into_value(self) -> Value<'static> {
                Value::Unsigned(u64::from(self))
            }
        }
    )*};
}

unsigned_column!(u8, u16, u32, u64);

impl ColumnValue for bool {
    const TYPE: ColumnType = ColumnType::Boolean;
    fn value(&self) -> Value<'_> {
        Value::Boolean(*self)
    }
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn decode(bytes: &[u8], _names: &mut NamePool) -> Result<Self, FieldError> {
        match fixed::<1>(bytes)? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(FieldError::Range(u64::from(other))),
        }
    }
}

impl ComputedValue for bool {
    const TYPE: ColumnType = ColumnType::Boolean;
    fn into_value(self) -> Value<'static> {
        Value::Boolean(self)
    }
}

impl ColumnValue for i64 {
    const TYPE: ColumnType = ColumnType::Signed;
    fn value(&self) -> Value<'_> {
        Value::Signed(*self)
    }
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
    fn decode(bytes: &[u8], _names: &mut NamePool) -> Result<Self, FieldError> {
        fixed(bytes).map(i64::from_le_bytes)
    }
}

impl ColumnValue for Time {
    const TYPE: ColumnType = ColumnType::Time;
    fn value(&self) -> Value<'_> {
        Value::Time(*self)
    }
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.micros().to_le_bytes());
    }
    fn decode(bytes: &[u8], _names: &mut NamePool) -> Result<Self, FieldError> {
        fixed(bytes).map(|micros| Time::from_micros(i64::from_le_bytes(micros)))
    }
}

impl ColumnValue for u128 {
    const TYPE: ColumnType = ColumnType::Identifier;
    fn value(&self) -> Value<'_> {
        Value::Identifier(*self)
    }
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
    fn decode(bytes: &[u8], _names: &mut NamePool) -> Result<Self, FieldError> {
        fixed(bytes).map(u128::from_le_bytes)
    }
}

impl ColumnValue for SharedText {
    const TYPE: ColumnType = ColumnType::Text;
    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
    fn decode(bytes: &[u8], names: &mut NamePool) -> Result<Self, FieldError> {
        std::str::from_utf8(bytes).map(|text| names.share(text)).map_err(|_| FieldError::Text)
    }
}

impl ColumnValue for String {
    const TYPE: ColumnType = ColumnType::Text;
    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
    fn decode(bytes: &[u8], _names: &mut NamePool) -> Result<Self, FieldError> {
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| FieldError::Text)
    }
    fn heap_bytes(&self) -> usize {
        self.capacity()
    }
}

impl ColumnValue for Vec<u8> {
    const TYPE: ColumnType = ColumnType::Bytes;
    fn value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn decode(bytes: &[u8], _names: &mut NamePool) -> Result<Self, FieldError> {
        Ok(bytes.to_vec())
    }
    fn heap_bytes(&self) -> usize {
        self.capacity()
    }
}

impl ColumnValue for BlobReference {
    const TYPE: ColumnType = ColumnType::Bytes;
    fn value(&self) -> Value<'_> {
        Value::Bytes(&self.0)
    }
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
    fn decode(bytes: &[u8], _names: &mut NamePool) -> Result<Self, FieldError> {
        fixed(bytes).map(BlobReference)
    }
    fn blob(&self) -> Option<&BlobReference> {
        Some(self)
    }
}

impl<T: ColumnValue> ColumnValue for Option<T> {
    const TYPE: ColumnType = T::TYPE;
    const NULLABLE: bool = true;
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, T::value)
    }
    fn encode(&self, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.encode(out);
        }
    }
    fn decode(bytes: &[u8], names: &mut NamePool) -> Result<Self, FieldError> {
        T::decode(bytes, names).map(Some)
    }
    fn is_absent(&self) -> bool {
        self.is_none()
    }
    fn absent() -> Option<Self> {
        Some(None)
    }
    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or(0, T::heap_bytes)
    }
    fn blob(&self) -> Option<&BlobReference> {
        self.as_ref().and_then(T::blob)
    }
}

impl<T: ComputedValue> ComputedValue for Option<T> {
    const TYPE: ColumnType = T::TYPE;
    const NULLABLE: bool = true;
    fn into_value(self) -> Value<'static> {
        self.map_or(Value::Null, T::into_value)
    }
}
