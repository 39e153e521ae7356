//! Sharing of equal names while rows are read back.

use std::collections::HashSet;
use std::sync::Arc;

/// Names met while decoding many rows, so that equal ones share one allocation. Commands share names by cloning them from the rows they
/// read, so the pool is needed only where rows come from bytes; it is dropped when the reading ends and holds nothing alive after.
#[derive(Debug, Default)]
pub struct NamePool {
    names: HashSet<Arc<str>>,
}

impl NamePool {
    /// The shared name equal to `text`.
    pub fn share(&mut self, text: &str) -> Arc<str> {
        match self.names.get(text) {
            Some(name) => name.clone(),
            None => {
                let name: Arc<str> = Arc::from(text);
                self.names.insert(name.clone());
                name
            }
        }
    }
}
