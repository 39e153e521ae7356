//! # schema-derive: writes what every row would repeat
//!
//! `#[derive(Row)]` turns a struct with doc comments and tags into a table's schema and its stored form; `#[derive(Enumeration)]` turns a plain
//! enum into a column of words. Both write only what a person would otherwise write by hand for each type, nothing cleverer; what they
//! refuse, they refuse at compile time and at the place where it stands.
//!
//! Attributes of the struct: `#[row(table = "…", number = N, partition(column, …), durability = committed | relaxed | volatile, kind = rows | append,
//! computed(name = "…", with = function, of = Type, doc = "…"), index(name = "…", columns(…), unique, only_where = column),
//! rollup(name = "…", key(…), sums(…), only_where = column))]`. Attributes of a field: `#[row(tag = N)]`, optionally `default = expression`,
//! or `#[row(unknown)]` on the one field of type `Unknown`. Attributes of a variant: `#[word(number = N)]`, optionally `text = "…"`.
#![forbid(unsafe_code)]

mod enumeration;
mod row;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Derives `rollcall_schema::Row`; see the crate's front page for its attributes.
#[proc_macro_derive(Row, attributes(row))]
pub fn derive_row(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    row::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Derives `ColumnValue` and `ComputedValue` for an enum without fields; each variant carries `#[word(number = N)]`, and its doc comment is the
/// word's meaning. The word is the variant's name in snake case.
#[proc_macro_derive(Enumeration, attributes(word))]
pub fn derive_enumeration(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    enumeration::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
