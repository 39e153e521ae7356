//! Placeholder of the room `config`.
