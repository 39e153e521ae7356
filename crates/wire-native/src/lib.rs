//! Placeholder of the room `wire-native`.
