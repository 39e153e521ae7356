//! Placeholder of the room `sandbox`.
