//! From text to a condition: recursive descent, one word ahead, no deeper than a condition may be.

use super::token::{Token, Tokens};
use super::value::{self, Offered};
use super::{WHERE_BYTES_MAX, WhereError, WhereErrorKind, columns_hint};
use rollcall_schema::{ColumnType, Literal, TableSchema};
use rollcall_store::{CONDITION_DEPTH_MAX, Condition, Operator};
use rollcall_types::nearest;
use std::borrow::Cow;

/// Words that join and compare, and so are no columns.
const KEYWORDS: &[&str] = &["and", "or", "not", "in", "like", "is", "null", "true", "false", "between"];

/// Fields of answers that are no columns: the table, or none for all tables; the field; what to ask in its place.
const FIELDS_OF_ANSWERS: &[(&str, &str, &str)] = &[
    ("tasks", "task", "ask for its parts: job = 'web' and instance = 0 and attempt = 3"),
    ("", "row", "ask for `uid`, or continue with `after`"),
    ("", "version", "ask for an old version with `as_of`"),
];

/// Reads a condition on the rows of a table; the grammar is on the front page of this crate.
///
/// # Errors
/// The first thing that is wrong, and where it stands. A condition that is returned fits the table and the limits of the store.
pub fn parse_where(text: &str, schema: &'static TableSchema) -> Result<Condition<'static>, WhereError> {
    if text.len() > WHERE_BYTES_MAX {
        let message = format!("the condition has {} bytes, at most {WHERE_BYTES_MAX} are possible", text.len());
        let error = WhereError::at(text, 0, WhereErrorKind::TooLarge, message);
        return Err(error.hint("ask several times, each for a part of the list"));
    }
    let mut parser = Parser { text, tokens: Tokens::new(text), schema, depth: 0, token: Token::End, offset: 0 };
    parser.step()?;
    if parser.token == Token::End {
        let error = parser.error(WhereErrorKind::Syntax, "the condition is empty".to_owned());
        return Err(error.hint("leave it out to ask for all rows"));
    }
    let condition = parser.any()?;
    if parser.token != Token::End {
        let message = format!("the condition should end before {}", parser.found());
        return Err(parser.error(WhereErrorKind::Syntax, message).hint("join conditions with and, or"));
    }
    // The store has the last word on what it can answer; a condition that passed here is too large at most.
    condition.check(schema).map_err(|error| WhereError::at(text, 0, WhereErrorKind::TooLarge, error.to_string()))?;
    Ok(condition)
}

struct Parser<'t> {
    text: &'t str,
    tokens: Tokens<'t>,
    schema: &'static TableSchema,
    /// How many parentheses and `not` are open.
    depth: usize,
    /// The word that comes next, and where it starts.
    token: Token<'t>,
    offset: usize,
}

type Parsed = Result<Condition<'static>, WhereError>;

impl Parser<'_> {
    /// Reads on by one word.
    fn step(&mut self) -> Result<(), WhereError> {
        (self.token, self.offset) = self.tokens.next()?;
        Ok(())
    }

    /// Reads over the keyword if it comes next.
    fn take(&mut self, keyword: &str) -> Result<bool, WhereError> {
        let found = self.token.is(keyword);
        if found {
            self.step()?;
        }
        Ok(found)
    }

    /// Reads over the symbol, which must come next.
    fn expect(&mut self, symbol: &'static str, instead: &str) -> Result<(), WhereError> {
        if self.token == Token::Symbol(symbol) {
            return self.step();
        }
        let message = format!("{instead} is expected here, and not {}", self.found());
        Err(self.error(WhereErrorKind::Syntax, message))
    }

    fn any(&mut self) -> Parsed {
        self.joined("or", Self::all, Condition::Or)
    }

    fn all(&mut self) -> Parsed {
        self.joined("and", Self::negated, Condition::And)
    }

    fn joined(
        &mut self,
        keyword: &str,
        part: fn(&mut Self) -> Parsed,
        join: fn(Vec<Condition<'static>>) -> Condition<'static>,
    ) -> Parsed {
        let first = part(self)?;
        if !self.token.is(keyword) {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.take(keyword)? {
            parts.push(part(self)?);
        }
        Ok(join(parts))
    }

    fn negated(&mut self) -> Parsed {
        if !self.token.is("not") {
            return self.term();
        }
        self.nested(|parser| {
            parser.step()?;
            Ok(Condition::Not(Box::new(parser.negated()?)))
        })
    }

    /// Reads something one level deeper.
    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        if self.depth == CONDITION_DEPTH_MAX {
            let message = format!("this is nested too deeply: at most {CONDITION_DEPTH_MAX} levels are possible");
            return Err(self.error(WhereErrorKind::TooLarge, message));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn term(&mut self) -> Parsed {
        if self.token != Token::Symbol("(") {
            return self.comparison();
        }
        self.nested(|parser| {
            parser.step()?;
            let inner = parser.any()?;
            parser.expect(")", "`)`")?;
            Ok(inner)
        })
    }

    /// A column and what is asked of it.
    fn comparison(&mut self) -> Parsed {
        let column = self.column()?;
        self.step()?;
        if let Token::Symbol(symbol) = self.token
            && let Some(operator) = operator(symbol)
        {
            return self.compared(column, symbol, operator);
        }
        if self.take("is")? {
            let negated = self.take("not")?;
            if !self.take("null")? {
                let message = format!("`null` is expected here, and not {}", self.found());
                let error = self.error(WhereErrorKind::Syntax, message);
                return Err(error.hint("write is null or is not null; values are compared with ="));
            }
            return Ok(negated_if(negated, Condition::IsNull { column }));
        }
        let negated = self.take("not")?;
        if self.take("in")? {
            return Ok(negated_if(negated, self.one_of(column)?));
        }
        if self.token.is("like") {
            return Ok(negated_if(negated, self.like(column)?));
        }
        let schema = &self.schema.columns[column];
        if self.token.is("between") {
            let error = self.error(WhereErrorKind::NotSupported, "`between` is not yet supported".to_owned());
            return Err(error.hint(format!("write {0} >= … and {0} <= …", schema.name)));
        }
        if negated {
            let message = format!("`in` or `like` is expected after not, and not {}", self.found());
            return Err(self.error(WhereErrorKind::Syntax, message));
        }
        if matches!(schema.column_type, ColumnType::Boolean) {
            return Ok(Condition::Compare { column, operator: Operator::Equal, value: Literal::Boolean(true) });
        }
        let message = format!("`{}` must be compared with something; found {}", schema.name, self.found());
        let error = self.error(WhereErrorKind::Syntax, message);
        Err(error.hint(format!("for example: {} = {}", schema.name, value::example(schema.column_type))))
    }

    /// The column that comes next, which is not read over.
    fn column(&self) -> Result<usize, WhereError> {
        let name = match &self.token {
            Token::Name(name) if !KEYWORDS.iter().any(|keyword| self.token.is(keyword)) => *name,
            Token::End => {
                let message = "the condition ends where a column is expected".to_owned();
                return Err(self.error(WhereErrorKind::Syntax, message));
            }
            _ => {
                let message = format!("a column is expected here, and not {}", self.found());
                return Err(self
                    .error(WhereErrorKind::Syntax, message)
                    .hint("a comparison is a column, an operator and a value: job = 'web'"));
            }
        };
        if let Some(column) = self.schema.column(name) {
            return Ok(column);
        }
        if self.text[self.offset + name.len()..].trim_start().starts_with('(') {
            let message = format!("`{name}(…)` is not yet supported");
            return Err(self.error(WhereErrorKind::NotSupported, message).hint("compare a column: job like 'web%'"));
        }
        if name.contains('.') {
            let message = format!("`{name}`: asking for a part of a column is not yet supported");
            return Err(self.error(WhereErrorKind::NotSupported, message).hint(columns_hint(self.schema)));
        }
        let field = FIELDS_OF_ANSWERS
            .iter()
            .find(|(table, field, _)| (table.is_empty() || *table == self.schema.name) && *field == name);
        if let Some((_, field, advice)) = field {
            let message = format!("`{field}` is a field of answers and cannot be asked for");
            return Err(self.error(WhereErrorKind::NoColumn, message).hint(*advice));
        }
        let names = || self.schema.columns.iter().map(|column| column.name);
        let meant = names().find(|column| column.eq_ignore_ascii_case(name)).or_else(|| nearest(name, names()));
        let message = match meant {
            Some(meant) => format!("no column `{name}`; did you mean `{meant}`?"),
            None => format!("no column `{name}`"),
        };
        Err(self.error(WhereErrorKind::NoColumn, message).hint(columns_hint(self.schema)))
    }

    fn compared(&mut self, column: usize, symbol: &str, operator: Operator) -> Parsed {
        let schema = &self.schema.columns[column];
        let ordered = !matches!(operator, Operator::Equal | Operator::NotEqual);
        if ordered && matches!(schema.column_type, ColumnType::Enumeration(_) | ColumnType::Boolean) {
            let message = format!("`{}` has no order, so {symbol} cannot be asked of it", schema.name);
            let error = self.error(WhereErrorKind::WrongValue, message);
            return Err(error.hint(match schema.column_type {
                ColumnType::Boolean => format!("write {0} or not {0}", schema.name),
                _ => format!("use =, != or in (…); {}", value::words_hint(schema)),
            }));
        }
        self.step()?;
        let value = self.value(column)?;
        Ok(Condition::Compare { column, operator, value })
    }

    fn one_of(&mut self, column: usize) -> Parsed {
        self.expect("(", "`(`")?;
        let mut values = vec![self.value(column)?];
        while self.token == Token::Symbol(",") {
            self.step()?;
            values.push(self.value(column)?);
        }
        self.expect(")", "`,` or `)`")?;
        Ok(Condition::In { column, values })
    }

    fn like(&mut self, column: usize) -> Parsed {
        let schema = &self.schema.columns[column];
        if !matches!(schema.column_type, ColumnType::Text) {
            let message = format!("`{}` is of type {}; like is for text only", schema.name, schema.column_type.word());
            return Err(self.error(WhereErrorKind::WrongValue, message).hint("use =, != or in (…)"));
        }
        self.step()?;
        let Token::Text(pattern) = &self.token else {
            let message = format!("a pattern is expected after like, and not {}", self.found());
            return Err(self
                .error(WhereErrorKind::WrongValue, message)
                .hint("write it in single quotes, with % for any text and _ for any letter: 'web%'"));
        };
        let pattern = Cow::Owned(pattern.clone().into_owned());
        self.step()?;
        Ok(Condition::Like { column, pattern })
    }

    /// The value that comes next, as one of the column's type, read over.
    fn value(&mut self, column: usize) -> Result<Literal<'static>, WhereError> {
        let schema = &self.schema.columns[column];
        let offered = match &self.token {
            Token::Text(text) => Offered::Text(text),
            Token::Number(digits) => Offered::Number(digits),
            Token::Name(_) if self.token.is("true") => Offered::Boolean(true),
            Token::Name(_) if self.token.is("false") => Offered::Boolean(false),
            Token::Name(_) if self.token.is("null") => {
                let error = self.error(WhereErrorKind::WrongValue, "nothing equals null".to_owned());
                return Err(error.hint(format!("write {0} is null or {0} is not null", schema.name)));
            }
            Token::Name(name) if !KEYWORDS.iter().any(|keyword| self.token.is(keyword)) => {
                return Err(self.bare_word(name, schema.column_type));
            }
            _ => {
                let message = format!("a value for `{}` is expected here, and not {}", schema.name, self.found());
                let error = self.error(WhereErrorKind::Syntax, message);
                return Err(error.hint(format!("for example: {}", value::example(schema.column_type))));
            }
        };
        let literal = value::literal(schema, offered).map_err(|(message, hint)| {
            let error = self.error(WhereErrorKind::WrongValue, message);
            if hint.is_empty() { error } else { error.hint(hint) }
        })?;
        self.step()?;
        Ok(literal)
    }

    /// Says what is wrong with a word without quotes where a value is expected.
    fn bare_word(&self, name: &str, column_type: ColumnType) -> WhereError {
        let rest = self.text[self.offset + name.len()..].trim_start();
        if rest.starts_with('(') {
            let error = self.error(WhereErrorKind::NotSupported, format!("`{name}(…)` is not yet supported"));
            return error.hint(format!("write the value itself, for example {}", value::example(column_type)));
        }
        if self.schema.column(name).is_some() {
            let message = format!("`{name}` is a column; comparing columns with each other is not yet supported");
            return self
                .error(WhereErrorKind::NotSupported, message)
                .hint(format!("if text was meant, write '{name}'"));
        }
        let error = self.error(WhereErrorKind::Syntax, format!("`{name}` stands where a value is expected"));
        error.hint(match column_type {
            ColumnType::Text | ColumnType::Enumeration(_) => format!("write text in single quotes: '{name}'"),
            _ => format!("for example: {}", value::example(column_type)),
        })
    }

    /// What comes next, for an error.
    fn found(&self) -> String {
        match &self.token {
            Token::Name(name) => format!("`{name}`"),
            Token::Text(_) => "a text".to_owned(),
            Token::Number(digits) => format!("`{digits}`"),
            Token::Symbol(symbol) => format!("`{symbol}`"),
            Token::End => "the end".to_owned(),
        }
    }

    fn error(&self, kind: WhereErrorKind, message: String) -> WhereError {
        WhereError::at(self.text, self.offset, kind, message)
    }
}

fn operator(symbol: &str) -> Option<Operator> {
    Some(match symbol {
        "=" => Operator::Equal,
        "!=" | "<>" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        _ => return None,
    })
}

fn negated_if(negated: bool, condition: Condition<'static>) -> Condition<'static> {
    if negated { Condition::Not(Box::new(condition)) } else { condition }
}
