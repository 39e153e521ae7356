//! The key form of values: bytes whose order is the order of the values.
//!
//! ```text
//! nullable column   00 = null, 01 = a value follows
//! boolean, word     one byte
//! unsigned          number of significant bytes, then those, most significant first
//! signed, time      8 bytes, most significant first, sign bit flipped
//! identifier        16 bytes, most significant first
//! text, bytes       each byte b > 01 as it is, 00 as 01 01, 01 as 01 02; then 00
//! ```
//!
//! A key of several columns is their concatenation; no key form is a proper prefix of another of the same column, so the order of
//! the concatenation is the order of the tuples.

use crate::Value;

const ESCAPE: u8 = 1;
const END_OF_TEXT: u8 = 0;

/// Appends the key form of a value of a column that is `nullable` or not. Nested values have no order and append nothing.
pub fn put_value(out: &mut Vec<u8>, value: Value<'_>, nullable: bool) {
    if nullable {
        out.push(u8::from(!value.is_null()));
    }
    match value {
        Value::Null | Value::Nested(_) => {}
        Value::Boolean(value) => out.push(u8::from(value)),
        Value::Enumeration(value) => out.push(value),
        Value::Unsigned(value) => put_unsigned(out, value),
        Value::Signed(value) => out.extend_from_slice(&((value as u64) ^ (1 << 63)).to_be_bytes()),
        Value::Time(value) => out.extend_from_slice(&((value.micros() as u64) ^ (1 << 63)).to_be_bytes()),
        Value::Identifier(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Text(value) => put_text(out, value.as_bytes()),
        Value::Bytes(value) => put_text(out, value),
    }
}

/// Appends the key form of every text that starts with `prefix`: what all their keys start with, and no other key does.
pub fn put_text_prefix(out: &mut Vec<u8>, prefix: &[u8], nullable: bool) {
    if nullable {
        out.push(1);
    }
    put_escaped(out, prefix);
}

fn put_unsigned(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_be_bytes();
    let significant = 8 - value.leading_zeros() as usize / 8;
    out.push(significant as u8);
    out.extend_from_slice(&bytes[8 - significant..]);
}

fn put_text(out: &mut Vec<u8>, bytes: &[u8]) {
    put_escaped(out, bytes);
    out.push(END_OF_TEXT);
}

fn put_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.iter().all(|byte| *byte > ESCAPE) {
        out.extend_from_slice(bytes);
        return;
    }
    for &byte in bytes {
        if byte <= ESCAPE {
            out.push(ESCAPE);
            out.push(byte + 1);
        } else {
            out.push(byte);
        }
    }
}

/// Makes `key` the smallest key greater than every key that starts with it; false if there is none, that is if all bytes are `ff`.
pub fn step_past_prefix(key: &mut Vec<u8>) -> bool {
    while let Some(last) = key.last_mut() {
        if *last < u8::MAX {
            *last += 1;
            return true;
        }
        key.pop();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{put_text_prefix, put_value, step_past_prefix};
    use crate::{Time, Value};
    use std::cmp::Ordering;

    fn key(values: &[Value<'_>], nullable: bool) -> Vec<u8> {
        let mut out = Vec::new();
        values.iter().for_each(|value| put_value(&mut out, *value, nullable));
        out
    }

    fn check_order(values: &[Value<'_>], nullable: bool) {
        for left in values {
            for right in values {
                let expected = left.compare(right);
                assert_eq!(key(&[*left], nullable).cmp(&key(&[*right], nullable)), expected, "{left:?} {right:?}");
                // The order of the first column decides, whatever follows it.
                let (low, high) = (Value::Bytes(&[]), Value::Bytes(&[255, 255]));
                if expected != Ordering::Equal {
                    assert_eq!(key(&[*left, high], nullable).cmp(&key(&[*right, low], nullable)), expected);
                }
            }
        }
    }

    #[test]
    fn the_order_of_keys_is_the_order_of_values() {
        let texts = [
            "",
            "\0",
            "\0\0",
            "\0\u{1}",
            "\u{1}",
            "\u{1}\0",
            "\u{2}",
            "a",
            "a\0",
            "a\u{1}b",
            "ab",
            "b",
            "ü",
            "\u{10ffff}",
        ];
        let numbers = [0, 1, 255, 256, 65_535, 65_536, 1 << 32, u64::MAX - 1, u64::MAX];
        let signed = [i64::MIN, -256, -1, 0, 1, 255, i64::MAX];
        for nullable in [false, true] {
            let null = if nullable { vec![Value::Null] } else { vec![] };
            let with = |values: Vec<Value<'static>>| [null.clone(), values].concat();
            check_order(&with(texts.iter().map(|text| Value::Text(text)).collect()), nullable);
            check_order(&with(numbers.iter().map(|number| Value::Unsigned(*number)).collect()), nullable);
            check_order(&with(signed.iter().map(|number| Value::Signed(*number)).collect()), nullable);
            check_order(&with(signed.iter().map(|number| Value::Time(Time::from_micros(*number))).collect()), nullable);
            check_order(
                &with(numbers.iter().map(|number| Value::Identifier(u128::from(*number) << 60)).collect()),
                nullable,
            );
            check_order(&with((0..=255).map(Value::Enumeration).collect()), nullable);
            check_order(&with(vec![Value::Boolean(false), Value::Boolean(true)]), nullable);
        }
    }

    #[test]
    fn a_text_prefix_holds_exactly_the_texts_that_start_with_it() {
        let texts = ["", "\0", "a", "a\0", "a\u{1}", "aa", "ab", "abc", "b", "ü", "üx"];
        for prefix in texts {
            let mut low = Vec::new();
            put_text_prefix(&mut low, prefix.as_bytes(), true);
            let mut high = low.clone();
            let bounded = step_past_prefix(&mut high);
            for text in texts {
                let key = key(&[Value::Text(text)], true);
                assert_eq!(key >= low && (!bounded || key < high), text.starts_with(prefix), "{prefix:?} {text:?}");
            }
        }
        assert!(!step_past_prefix(&mut vec![255, 255]));
    }
}
