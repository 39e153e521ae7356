//! Placeholder of the room `planner`.
