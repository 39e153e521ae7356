//! `#[derive(Enumeration)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, LitInt, LitStr, Result, Variant};

use crate::row::doc_comment;

struct Word {
    number: u64,
    text: String,
    comment: String,
}

pub fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new_spanned(input, "Enumeration is for enums"));
    };
    let words = data.variants.iter().map(word).collect::<Result<Vec<_>>>()?;
    for (position, word) in words.iter().enumerate() {
        if words[..position].iter().any(|other| other.number == word.number || other.text == word.text) {
            return Err(Error::new_spanned(&data.variants[position], "this number or word is used twice"));
        }
    }
    let name = &input.ident;
    let variants: Vec<_> = data.variants.iter().map(|variant| &variant.ident).collect();
    let texts: Vec<_> = words.iter().map(|word| &word.text).collect();
    let comments: Vec<_> = words.iter().map(|word| &word.comment).collect();
    let numbers: Vec<_> = words.iter().map(|word| word.number).collect();
    let positions: Vec<_> = (0..words.len()).map(|position| position as u8).collect();
    Ok(quote! {
        impl #name {
            /// Every value, in order.
            pub const ALL: &'static [#name] = &[#(#name::#variants),*];
            /// The words, in the order of the values.
            pub const WORDS: &'static [&'static str] = &[#(#texts),*];
            /// What each word means.
            pub const MEANINGS: &'static [&'static str] = &[#(#comments),*];
            /// The word for this value.
            pub const fn word(self) -> &'static str { Self::WORDS[self.position() as usize] }
            /// The position of this value in the order.
            pub const fn position(self) -> u8 { match self { #(#name::#variants => #positions),* } }
            /// The value that a word stands for.
            pub fn from_word(word: &str) -> Option<#name> {
                match word { #(#texts => Some(#name::#variants),)* _ => None }
            }
        }
        impl ::std::fmt::Display for #name {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result { formatter.pad(self.word()) }
        }
        impl ::rollcall_schema::ColumnValue for #name {
            const TYPE: ::rollcall_schema::ColumnType = ::rollcall_schema::ColumnType::Enumeration(Self::WORDS);
            fn value(&self) -> ::rollcall_schema::Value<'_> { ::rollcall_schema::Value::Enumeration(self.position()) }
            fn encode(&self, out: &mut ::std::vec::Vec<u8>) {
                ::rollcall_schema::codec::put_varint(out, match self { #(#name::#variants => #numbers),* });
            }
            fn decode(
                mut bytes: &[u8], _names: &mut ::rollcall_schema::NamePool,
            ) -> ::std::result::Result<Self, ::rollcall_schema::FieldError> {
                let number = ::rollcall_schema::codec::take_varint(&mut bytes).ok_or(::rollcall_schema::FieldError::Number)?;
                match number {
                    #(#numbers => Ok(#name::#variants),)*
                    other => Err(::rollcall_schema::FieldError::Word(other)),
                }
            }
        }
        impl ::rollcall_schema::ComputedValue for #name {
            const TYPE: ::rollcall_schema::ColumnType = ::rollcall_schema::ColumnType::Enumeration(Self::WORDS);
            fn into_value(self) -> ::rollcall_schema::Value<'static> { ::rollcall_schema::Value::Enumeration(self.position()) }
        }
        impl<'q> From<#name> for ::rollcall_schema::Literal<'q> {
            fn from(value: #name) -> Self { ::rollcall_schema::Literal::Enumeration(value.position()) }
        }
    })
}

fn word(variant: &Variant) -> Result<Word> {
    if !matches!(variant.fields, Fields::Unit) {
        return Err(Error::new_spanned(variant, "a word has no fields"));
    }
    let (mut number, mut text) = (None, snake_case(&variant.ident.to_string()));
    for attribute in variant.attrs.iter().filter(|attribute| attribute.path().is_ident("word")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("number") {
                number = Some(meta.value()?.parse::<LitInt>()?.base10_parse()?);
                Ok(())
            } else if meta.path.is_ident("text") {
                text = meta.value()?.parse::<LitStr>()?.value();
                Ok(())
            } else {
                Err(meta.error("expected `number` or `text`"))
            }
        })?;
    }
    let number =
        number.ok_or_else(|| Error::new_spanned(variant, "a word needs its stored number: #[word(number = N)]"))?;
    Ok(Word { number, text, comment: doc_comment(&variant.attrs) })
}

fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for (position, letter) in name.char_indices() {
        if letter.is_uppercase() && position > 0 {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}
