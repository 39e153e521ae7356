//! Placeholder of the room `schema-derive`.
