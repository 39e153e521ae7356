//! Text, numbers and digits as JSON wants them, appended without an allocation of their own.

/// What stands behind the backslash for each byte that cannot stand in a JSON text: 0 for bytes that can, `u` for those without a letter.
static ESCAPES: [u8; 256] = {
    let mut escapes = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        escapes[byte] = b'u';
        byte += 1;
    }
    escapes[0x08] = b'b';
    escapes[0x09] = b't';
    escapes[0x0a] = b'n';
    escapes[0x0c] = b'f';
    escapes[0x0d] = b'r';
    escapes[b'"' as usize] = b'"';
    escapes[b'\\' as usize] = b'\\';
    escapes
};

const HEXADECIMAL_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Appends a text in quotes.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    put_inside(out, text);
    out.push(b'"');
}

/// Appends a text as it stands between quotes.
#[inline]
pub(super) fn put_inside(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    // Nearly all texts are names, in which nothing is escaped.
    if bytes.iter().all(|byte| ESCAPES[usize::from(*byte)] == 0) {
        out.extend_from_slice(bytes);
    } else {
        put_escaped(out, bytes);
    }
}

#[cold]
fn put_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut written = 0;
    for (position, byte) in bytes.iter().enumerate() {
        let escape = ESCAPES[usize::from(*byte)];
        if escape == 0 {
            continue;
        }
        out.extend_from_slice(&bytes[written..position]);
        written = position + 1;
        out.extend_from_slice(&[b'\\', escape]);
        if escape == b'u' {
            out.extend_from_slice(b"00");
            put_hexadecimal(out, &[*byte]);
        }
    }
    out.extend_from_slice(&bytes[written..]);
}

/// Appends bytes as lower-case hexadecimal digits.
pub(crate) fn put_hexadecimal(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len() * 2);
    for byte in bytes {
        let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
        out.extend_from_slice(&[HEXADECIMAL_DIGITS[high], HEXADECIMAL_DIGITS[low]]);
    }
}

/// Appends an identifier in quotes, as 32 lower-case hexadecimal digits.
pub(super) fn put_identifier(out: &mut Vec<u8>, identifier: u128) {
    let mut text = [b'"'; 34];
    for (digits, byte) in text[1..33].chunks_exact_mut(2).zip(identifier.to_be_bytes()) {
        digits[0] = HEXADECIMAL_DIGITS[usize::from(byte >> 4)];
        digits[1] = HEXADECIMAL_DIGITS[usize::from(byte & 15)];
    }
    out.extend_from_slice(&text);
}

/// Appends a number in decimal digits.
#[inline]
pub(crate) fn put_unsigned(out: &mut Vec<u8>, mut number: u64) {
    // 2^64 has 20 digits; they come from the last to the first.
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// Appends a number in decimal digits, with a minus if it is negative.
#[inline]
pub(crate) fn put_signed(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    put_unsigned(out, number.unsigned_abs());
}
