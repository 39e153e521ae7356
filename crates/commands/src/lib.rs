//! Placeholder of the room `commands`.
