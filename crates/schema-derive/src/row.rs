//! `#[derive(Row)]`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, Field, Ident, LitInt, LitStr, Path, Result, Token, Type, parenthesized,
};

/// A stored field.
struct Stored {
    name: Ident,
    kind: Type,
    tag: u32,
    default: Option<Expr>,
    comment: String,
}

/// A column computed from the row.
struct Computed {
    name: LitStr,
    with: Path,
    kind: Type,
    comment: String,
}

struct Index {
    name: String,
    columns: Vec<Ident>,
    unique: bool,
    only_where: Option<Ident>,
}

struct Rollup {
    name: String,
    key: Vec<Ident>,
    sums: Vec<Ident>,
    only_where: Option<Ident>,
}

#[derive(Default)]
struct Table {
    name: Option<LitStr>,
    number: Option<u32>,
    partition: Vec<Ident>,
    durability: Option<Ident>,
    kind: Option<Ident>,
    computed: Vec<Computed>,
    indexes: Vec<Index>,
    rollups: Vec<Rollup>,
}

pub fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(input, "Row is for structs"));
    };
    let table = table(input)?;
    let mut stored = Vec::new();
    let mut unknown = None;
    for field in &data.fields {
        match stored_field(field)? {
            Some(column) => stored.push(column),
            None => unknown = field.ident.clone(),
        }
    }
    let unknown = unknown.ok_or_else(|| {
        Error::new_spanned(&input.ident, "a row keeps fields it does not know: add `#[row(unknown)] unknown: Unknown`")
    })?;
    if stored.len() + table.computed.len() > 64 {
        return Err(Error::new_spanned(&input.ident, "a table has at most 64 columns"));
    }
    for (position, column) in stored.iter().enumerate() {
        if stored[..position].iter().any(|other| other.tag == column.tag) {
            return Err(Error::new_spanned(&column.name, "this tag is used twice"));
        }
    }
    let schema = schema(input, &table, &stored)?;
    let codec = codec(&stored, &unknown);
    let access = access(&table, &stored);
    let constants = constants(&table, &stored);
    let name = &input.ident;
    Ok(quote! {
        impl #name { #constants }
        impl ::rollcall_schema::Row for #name {
            fn schema() -> &'static ::rollcall_schema::TableSchema { #schema }
            #access
            #codec
        }
    })
}

/// The first paragraph of a doc comment, as one line.
pub fn doc_comment(attributes: &[Attribute]) -> String {
    let mut out = String::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let syn::Meta::NameValue(meta) = &attribute.meta
            && let Expr::Lit(literal) = &meta.value
            && let syn::Lit::Str(line) = &literal.lit
        {
            let line = line.value();
            if line.trim().is_empty() && !out.is_empty() {
                break;
            }
            if !out.is_empty() {
                out.push(' ');
            }
            out.push_str(line.trim());
        }
    }
    out
}

fn idents(meta: &ParseNestedMeta<'_>) -> Result<Vec<Ident>> {
    let content;
    parenthesized!(content in meta.input);
    Ok(Punctuated::<Ident, Token![,]>::parse_terminated(&content)?.into_iter().collect())
}

fn table(input: &DeriveInput) -> Result<Table> {
    let mut table = Table::default();
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("row")) {
        attribute.parse_nested_meta(|meta| {
            let word = meta.path.require_ident()?.to_string();
            match word.as_str() {
                "table" => table.name = Some(meta.value()?.parse()?),
                "number" => table.number = Some(meta.value()?.parse::<LitInt>()?.base10_parse()?),
                "partition" => table.partition = idents(&meta)?,
                "durability" => table.durability = Some(meta.value()?.parse()?),
                "kind" => table.kind = Some(meta.value()?.parse()?),
                "computed" => table.computed.push(computed(&meta)?),
                "index" => table.indexes.push(index(&meta)?),
                "rollup" => table.rollups.push(rollup(&meta)?),
                _ => return Err(meta.error("no such attribute of a row")),
            }
            Ok(())
        })?;
    }
    Ok(table)
}

fn computed(meta: &ParseNestedMeta<'_>) -> Result<Computed> {
    let (mut name, mut with, mut kind, mut comment) = (None, None, None, None);
    meta.parse_nested_meta(|meta| {
        if meta.path.is_ident("name") {
            name = Some(meta.value()?.parse::<LitStr>()?);
        } else if meta.path.is_ident("with") {
            with = Some(meta.value()?.parse::<Path>()?);
        } else if meta.path.is_ident("of") {
            kind = Some(meta.value()?.parse::<Type>()?);
        } else if meta.path.is_ident("doc") {
            comment = Some(meta.value()?.parse::<LitStr>()?.value());
        } else {
            return Err(meta.error("expected name, with, of or doc"));
        }
        Ok(())
    })?;
    match (name, with, kind, comment) {
        (Some(name), Some(with), Some(kind), Some(comment)) => Ok(Computed { name, with, kind, comment }),
        _ => Err(meta.error("a computed column needs name, with, of and doc")),
    }
}

fn index(meta: &ParseNestedMeta<'_>) -> Result<Index> {
    let mut index = Index { name: String::new(), columns: Vec::new(), unique: false, only_where: None };
    meta.parse_nested_meta(|meta| {
        if meta.path.is_ident("name") {
            index.name = meta.value()?.parse::<LitStr>()?.value();
        } else if meta.path.is_ident("columns") {
            index.columns = idents(&meta)?;
        } else if meta.path.is_ident("unique") {
            index.unique = true;
        } else if meta.path.is_ident("only_where") {
            index.only_where = Some(meta.value()?.parse()?);
        } else {
            return Err(meta.error("expected name, columns, unique or only_where"));
        }
        Ok(())
    })?;
    if index.name.is_empty() || index.columns.is_empty() {
        return Err(meta.error("an index needs a name and columns"));
    }
    Ok(index)
}

fn rollup(meta: &ParseNestedMeta<'_>) -> Result<Rollup> {
    let mut rollup = Rollup { name: String::new(), key: Vec::new(), sums: Vec::new(), only_where: None };
    meta.parse_nested_meta(|meta| {
        if meta.path.is_ident("name") {
            rollup.name = meta.value()?.parse::<LitStr>()?.value();
        } else if meta.path.is_ident("key") {
            rollup.key = idents(&meta)?;
        } else if meta.path.is_ident("sums") {
            rollup.sums = idents(&meta)?;
        } else if meta.path.is_ident("only_where") {
            rollup.only_where = Some(meta.value()?.parse()?);
        } else {
            return Err(meta.error("expected name, key, sums or only_where"));
        }
        Ok(())
    })?;
    if rollup.name.is_empty() {
        return Err(meta.error("a rollup needs a name"));
    }
    Ok(rollup)
}

/// The stored column of a field, or `None` for the field that keeps unknown ones.
fn stored_field(field: &Field) -> Result<Option<Stored>> {
    let name = field.ident.clone().ok_or_else(|| Error::new_spanned(field, "a row's fields have names"))?;
    let (mut tag, mut default, mut unknown) = (None, None, false);
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("row")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("tag") {
                tag = Some(meta.value()?.parse::<LitInt>()?.base10_parse()?);
            } else if meta.path.is_ident("default") {
                default = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("unknown") {
                unknown = true;
            } else {
                return Err(meta.error("expected tag, default or unknown"));
            }
            Ok(())
        })?;
    }
    if unknown {
        return Ok(None);
    }
    let tag = tag.ok_or_else(|| Error::new_spanned(&name, "a stored field needs its number: #[row(tag = N)]"))?;
    let comment = doc_comment(&field.attrs);
    if comment.is_empty() {
        return Err(Error::new_spanned(&name, "a column needs a doc comment: people read it as the column's meaning"));
    }
    Ok(Some(Stored { name, kind: field.ty.clone(), tag, default, comment }))
}

fn schema(input: &DeriveInput, table: &Table, stored: &[Stored]) -> Result<TokenStream> {
    let position = |name: &Ident| -> Result<usize> {
        let names = stored.iter().map(|column| column.name.to_string());
        let computed = table.computed.iter().map(|column| column.name.value());
        names
            .chain(computed)
            .position(|column| name == column.as_str())
            .ok_or_else(|| Error::new_spanned(name, "no such column"))
    };
    let positions = |names: &[Ident]| names.iter().map(position).collect::<Result<Vec<_>>>();
    let option = |name: &Option<Ident>| -> Result<TokenStream> {
        Ok(match name {
            Some(name) => {
                let position = position(name)?;
                quote!(Some(#position))
            }
            None => quote!(None),
        })
    };
    let table_name =
        table.name.as_ref().ok_or_else(|| Error::new_spanned(&input.ident, "a row needs `table = \"…\"`"))?;
    let number = table.number.ok_or_else(|| Error::new_spanned(&input.ident, "a row needs `number = N`"))?;
    let comment = doc_comment(&input.attrs);
    let mut columns = Vec::new();
    for column in stored {
        let (name, kind, tag, comment) = (column.name.to_string(), &column.kind, column.tag, &column.comment);
        columns.push(quote! {
            ::rollcall_schema::ColumnSchema {
                name: #name, comment: #comment, column_type: <#kind as ::rollcall_schema::ColumnValue>::TYPE,
                nullable: <#kind as ::rollcall_schema::ColumnValue>::NULLABLE, tag: Some(#tag),
            }
        });
    }
    for column in &table.computed {
        let (name, kind, comment) = (&column.name, &column.kind, &column.comment);
        columns.push(quote! {
            ::rollcall_schema::ColumnSchema {
                name: #name, comment: #comment, column_type: <#kind as ::rollcall_schema::ComputedValue>::TYPE,
                nullable: <#kind as ::rollcall_schema::ComputedValue>::NULLABLE, tag: None,
            }
        });
    }
    let partition = positions(&table.partition)?;
    let mut indexes = Vec::new();
    for index in &table.indexes {
        let (name, unique, columns, only_where) =
            (&index.name, index.unique, positions(&index.columns)?, option(&index.only_where)?);
        indexes.push(quote! {
            ::rollcall_schema::IndexSchema { name: #name, columns: &[#(#columns),*], unique: #unique, only_where: #only_where,
                bits: ::rollcall_schema::column_bits(&[#(#columns),*], #only_where) }
        });
    }
    let mut rollups = Vec::new();
    for rollup in &table.rollups {
        let (name, key, sums, only_where) =
            (&rollup.name, positions(&rollup.key)?, positions(&rollup.sums)?, option(&rollup.only_where)?);
        rollups.push(quote! {
            ::rollcall_schema::RollupSchema { name: #name, key: &[#(#key),*], sums: &[#(#sums),*], only_where: #only_where,
                key_bits: ::rollcall_schema::column_bits(&[#(#key),*], #only_where),
                bits: ::rollcall_schema::column_bits(&[#(#key,)* #(#sums),*], #only_where) }
        });
    }
    let durability = choice(&table.durability, "Committed", &["committed", "relaxed", "volatile"])?;
    let kind = choice(&table.kind, "Rows", &["rows", "append"])?;
    Ok(quote! {
        static SCHEMA: ::rollcall_schema::TableSchema = ::rollcall_schema::TableSchema {
            name: #table_name, number: #number, comment: #comment, columns: &[#(#columns),*], partition: &[#(#partition),*],
            indexes: &[#(#indexes),*], rollups: &[#(#rollups),*],
            durability: ::rollcall_schema::Durability::#durability, kind: ::rollcall_schema::TableKind::#kind,
        };
        &SCHEMA
    })
}

/// The variant that a word of the attribute stands for.
fn choice(word: &Option<Ident>, default: &str, words: &[&str]) -> Result<Ident> {
    let Some(word) = word else { return Ok(format_ident!("{default}")) };
    let text = word.to_string();
    if !words.contains(&text.as_str()) {
        return Err(Error::new_spanned(word, format!("expected one of: {}", words.join(", "))));
    }
    let (first, rest) = text.split_at(1);
    Ok(format_ident!("{}{}", first.to_uppercase(), rest))
}

fn codec(stored: &[Stored], unknown: &Ident) -> TokenStream {
    let names: Vec<_> = stored.iter().map(|column| &column.name).collect();
    let tags: Vec<_> = stored.iter().map(|column| column.tag).collect();
    let kinds: Vec<_> = stored.iter().map(|column| &column.kind).collect();
    let texts: Vec<_> = stored.iter().map(|column| column.name.to_string()).collect();
    let defaults = stored.iter().map(|column| match &column.default {
        Some(default) => quote!(Some(#default)),
        None => {
            let kind = &column.kind;
            quote!(<#kind as ::rollcall_schema::ColumnValue>::absent())
        }
    });
    let slots: Vec<_> = stored.iter().map(|column| format_ident!("__field_{}", column.name)).collect();
    quote! {
        fn encode(&self, out: &mut ::std::vec::Vec<u8>) {
            #(if !::rollcall_schema::ColumnValue::is_absent(&self.#names) {
                ::rollcall_schema::codec::put_field_with(out, #tags, |out| ::rollcall_schema::ColumnValue::encode(&self.#names, out));
            })*
            out.extend_from_slice(self.#unknown.bytes());
        }

        fn decode(
            __bytes: &[u8], __names: &mut ::rollcall_schema::NamePool,
        ) -> ::std::result::Result<Self, ::rollcall_schema::DecodeError> {
            let __table = <Self as ::rollcall_schema::Row>::schema().name;
            #(let mut #slots: ::std::option::Option<#kinds> = None;)*
            let mut __unknown = ::rollcall_schema::Unknown::default();
            let mut __fields = ::rollcall_schema::codec::Fields::new(__bytes);
            while let Some((__tag, __bytes)) =
                __fields.take().map_err(|offset| ::rollcall_schema::DecodeError::Cut { table: __table, offset })?
            {
                match __tag {
                    #(#tags => #slots = Some(<#kinds as ::rollcall_schema::ColumnValue>::decode(__bytes, __names).map_err(|source| {
                        ::rollcall_schema::DecodeError::Field { table: __table, column: #texts, tag: __tag, source }
                    })?),)*
                    _ => __unknown.keep(__tag, __bytes),
                }
            }
            Ok(Self {
                #(#names: match #slots {
                    Some(value) => value,
                    None => {
                        let default: ::std::option::Option<#kinds> = #defaults;
                        default.ok_or(::rollcall_schema::DecodeError::Missing { table: __table, column: #texts, tag: #tags })?
                    }
                },)*
                #unknown: __unknown,
            })
        }

        fn heap_bytes(&self) -> usize {
            self.#unknown.heap_bytes() #(+ ::rollcall_schema::ColumnValue::heap_bytes(&self.#names))*
        }

        fn blobs(&self, visit: &mut dyn FnMut(&::rollcall_schema::BlobReference)) {
            #(if let Some(blob) = ::rollcall_schema::ColumnValue::blob(&self.#names) { visit(blob); })*
        }
    }
}

fn access(table: &Table, stored: &[Stored]) -> TokenStream {
    let stored_arms = stored.iter().enumerate().map(|(position, column)| {
        let name = &column.name;
        quote!(#position => ::rollcall_schema::ColumnValue::value(&self.#name))
    });
    let computed_arms = table.computed.iter().enumerate().map(|(position, column)| {
        let (position, with) = (position + stored.len(), &column.with);
        quote!(#position => ::rollcall_schema::ComputedValue::into_value(#with(self)))
    });
    let stored_positions: Vec<_> = (0..stored.len()).collect();
    let stored_names: Vec<_> = stored.iter().map(|column| &column.name).collect();
    let computed_positions: Vec<_> = (0..table.computed.len()).map(|position| position + stored.len()).collect();
    let computed: Vec<_> = table.computed.iter().map(|column| &column.with).collect();
    let computed_kinds: Vec<_> = table.computed.iter().map(|column| &column.kind).collect();
    quote! {
        #[inline]
        fn value(&self, column: usize) -> ::rollcall_schema::Value<'_> {
            match column {
                #(#stored_arms,)*
                #(#computed_arms,)*
                _ => ::rollcall_schema::Value::Null,
            }
        }

        fn differences(&self, other: &Self) -> u64 {
            let mut differ = 0u64;
            #(differ |= u64::from(self.#stored_names != other.#stored_names) << #stored_positions;)*
            #({
                let (left, right): (#computed_kinds, #computed_kinds) = (#computed(self), #computed(other));
                let same = ::rollcall_schema::ComputedValue::into_value(left)
                    .compare(&::rollcall_schema::ComputedValue::into_value(right))
                    .is_eq();
                differ |= u64::from(!same) << #computed_positions;
            })*
            differ
        }
    }
}

fn constants(table: &Table, stored: &[Stored]) -> TokenStream {
    let stored_names = stored.iter().map(|column| (column.name.to_string(), column.comment.clone()));
    let computed_names = table.computed.iter().map(|column| (column.name.value(), column.comment.clone()));
    let constants = stored_names.chain(computed_names).enumerate().map(|(position, (name, comment))| {
        let constant = format_ident!("{}", name.to_uppercase());
        quote! {
            #[doc = #comment]
            pub const #constant: ::rollcall_schema::Column<Self> = ::rollcall_schema::Column::at(#position);
        }
    });
    quote!(#(#constants)*)
}
