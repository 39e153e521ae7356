//! Placeholder of the room `agent`.
