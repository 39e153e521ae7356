//! The words of a condition's text.

use super::{WhereError, WhereErrorKind};
use std::borrow::Cow;

/// One word of the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'t> {
    /// A column, a keyword, or a path such as `labels.team`.
    Name(&'t str),
    /// What stood between single quotes.
    Text(Cow<'t, str>),
    /// Digits, with a sign before them at most.
    Number(&'t str),
    /// An operator, a parenthesis or a comma.
    Symbol(&'static str),
    /// There is no more text.
    End,
}

impl Token<'_> {
    /// Whether it is this keyword, however it is capitalised.
    pub(super) fn is(&self, keyword: &str) -> bool {
        matches!(self, Token::Name(name) if name.eq_ignore_ascii_case(keyword))
    }
}

/// Longer operators stand before those that they start with.
const SYMBOLS: &[&str] = &["<=", ">=", "<>", "!=", "<", ">", "=", "(", ")", ","];

/// What people write out of habit, and what they mean.
const HABITS: &[(&str, &str)] = &[
    ("==", "write = in place of =="),
    ("&&", "write and in place of &&"),
    ("||", "write or in place of ||"),
    ("!", "write not in place of !"),
    ("\"", "write text in single quotes: 'web'"),
    ("`", "write column names as they are, without quotes"),
    ("%", "write patterns as text: job like 'web%'"),
    ("*", "arithmetic is not supported"),
    ("+", "arithmetic is not supported"),
    ("-", "arithmetic is not supported; text and times stand in single quotes"),
    ("/", "arithmetic is not supported; text stands in single quotes"),
    (";", "one condition is all there can be"),
];

/// Reads the words of a text one after the other.
pub(super) struct Tokens<'t> {
    text: &'t str,
    offset: usize,
}

impl<'t> Tokens<'t> {
    pub(super) fn new(text: &'t str) -> Tokens<'t> {
        Tokens { text, offset: 0 }
    }

    /// The next word and where it starts.
    pub(super) fn next(&mut self) -> Result<(Token<'t>, usize), WhereError> {
        let rest = &self.text[self.offset..];
        self.offset += rest.len() - rest.trim_start().len();
        let (start, rest) = (self.offset, &self.text[self.offset..]);
        let Some(first) = rest.chars().next() else { return Ok((Token::End, start)) };
        if first == '\'' {
            return self.quoted(start);
        }
        let digits = rest.strip_prefix(['-', '+']).unwrap_or(rest);
        if digits.starts_with(|letter: char| letter.is_ascii_digit()) {
            return self.number(start, rest.len() - digits.len());
        }
        if first.is_alphabetic() || first == '_' {
            let name = &rest[..name_length(rest)];
            self.offset += name.len();
            return Ok((Token::Name(name), start));
        }
        if !rest.starts_with("==")
            && let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol))
        {
            self.offset += symbol.len();
            return Ok((Token::Symbol(symbol), start));
        }
        let habit = HABITS.iter().find(|(habit, _)| rest.starts_with(*habit));
        let found = habit.map_or_else(|| first.escape_debug().to_string(), |(habit, _)| (*habit).to_owned());
        let error = self.error(start, format!("`{found}` means nothing here"));
        Err(match habit {
            Some((_, advice)) => error.hint(*advice),
            None => error,
        })
    }

    /// A text in single quotes, in which two of them stand for one.
    fn quoted(&mut self, start: usize) -> Result<(Token<'t>, usize), WhereError> {
        let body = start + 1;
        let mut end = body;
        let mut doubled = false;
        loop {
            let Some(found) = self.text[end..].find('\'') else {
                let error = self.error(start, "this text has no end".to_owned());
                return Err(error.hint("close it with a single quote; a quote inside is written twice: 'it''s'"));
            };
            end += found + 1;
            if !self.text[end..].starts_with('\'') {
                break;
            }
            doubled = true;
            end += 1;
        }
        self.offset = end;
        let inside = &self.text[body..end - 1];
        let text = if doubled { Cow::Owned(inside.replace("''", "'")) } else { Cow::Borrowed(inside) };
        Ok((Token::Text(text), start))
    }

    fn number(&mut self, start: usize, sign: usize) -> Result<(Token<'t>, usize), WhereError> {
        let rest = &self.text[start..];
        let length = sign + rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
        let whole = length + name_length(&rest[length..]);
        if whole > length {
            let error = self.error(start, format!("`{}` is not a whole number", &rest[..whole]));
            return Err(
                error.hint("numbers are whole: bytes, thousandths of a cpu; text and times stand in single quotes")
            );
        }
        self.offset += length;
        Ok((Token::Number(&rest[..length]), start))
    }

    fn error(&self, offset: usize, message: String) -> WhereError {
        WhereError::at(self.text, offset, WhereErrorKind::Syntax, message)
    }
}

/// How many bytes at the start of the text are letters, digits, underscores and dots.
fn name_length(text: &str) -> usize {
    text.find(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '.').unwrap_or(text.len())
}
