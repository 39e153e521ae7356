//! Ids: what names a thing, each a type of its own.

use rollcall_schema::{ColumnType, ColumnValue, FieldError, Literal, NamePool, SharedText, Value};
use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

macro_rules! name_type {
    ($($(#[$comment:meta])* $name:ident),* $(,)?) => {$(
        $(#[$comment])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(SharedText);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                $name(SharedText::from(text))
            }
        }

        impl Deref for $name {
            type Target = str;
            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.pad(&self.0)
            }
        }

        impl ColumnValue for $name {
            const TYPE: ColumnType = ColumnType::Text;
            fn value(&self) -> Value<'_> {
                Value::Text(&self.0)
            }
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(self.0.as_bytes());
            }
            fn decode(bytes: &[u8], names: &mut NamePool) -> Result<Self, FieldError> {
                SharedText::decode(bytes, names).map($name)
            }
        }

        impl<'q> From<&'q $name> for Literal<'q> {
            fn from(name: &'q $name) -> Self {
                Literal::from(name.as_str())
            }
        }
    )*};
}

name_type! {
    /// The name of an agent.
    AgentName,
    /// The name of a job, unique in its namespace.
    JobName,
    /// The owner of rows.
    Namespace,
    /// Who code runs as on its host.
    UserName,
}

macro_rules! identifier_type {
    ($($(#[$comment:meta])* $name:ident),* $(,)?) => {$(
        $(#[$comment])*
        // At the places where eight bytes can be: rows are of that alignment, and allocators have no faster one.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(C, packed(8))]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                let number = self.0;
                write!(formatter, "{number:032x}")
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{self}")
            }
        }

        impl FromStr for $name {
            type Err = IdentifierError;
            fn from_str(text: &str) -> Result<Self, IdentifierError> {
                let digits = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
                u128::from_str_radix(text, 16).ok().filter(|_| digits).map($name).ok_or(IdentifierError)
            }
        }

        impl ColumnValue for $name {
            const TYPE: ColumnType = ColumnType::Identifier;
            fn value(&self) -> Value<'_> {
                Value::Identifier(self.0)
            }
            fn encode(&self, out: &mut Vec<u8>) {
                ColumnValue::encode(&{ self.0 }, out);
            }
            fn decode(bytes: &[u8], names: &mut NamePool) -> Result<Self, FieldError> {
                u128::decode(bytes, names).map($name)
            }
        }

        impl<'q> From<$name> for Literal<'q> {
            fn from(identifier: $name) -> Self {
                Literal::Identifier(identifier.0)
            }
        }
    )*};
}

identifier_type! {
    /// The name of a spec: the first 128 bits of the SHA-256 of its canonical text.
    SpecHash,
    /// The identity of a row for ever: no two rows ever have the same, not even after one is removed and made again.
    Uid,
}

/// The text is not 32 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an identifier is 32 hexadecimal digits, 0-9 and a-f")]
pub struct IdentifierError;

#[cfg(test)]
mod tests {
    use super::Uid;

    #[test]
    fn identifiers_read_what_they_print_and_nothing_else() {
        for number in [0, 1, u128::MAX, 1 << 77] {
            assert_eq!(Uid(number).to_string().parse(), Ok(Uid(number)));
        }
        for wrong in [
            "",
            "1",
            "0x0000000000000000000000000000000",
            "+0000000000000000000000000000000",
            "0000000000000000000000000000000G",
        ] {
            assert!(wrong.parse::<Uid>().is_err(), "{wrong}");
        }
    }
}
