//! Placeholder of the room `sim`.
