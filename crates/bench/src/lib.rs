//! Placeholder of the room `bench`.
