//! Placeholder of the room `schema`.
