//! Sharing of equal names while rows are read back.

use arcstr::ArcStr;
use std::collections::HashSet;

/// Text that many rows share, behind one pointer.
pub type SharedText = ArcStr;

/// Names met while decoding many rows, so that equal ones share one allocation. Commands share names by cloning them from the rows they
/// read, so the pool is needed only where rows come from bytes; it is dropped when the reading ends and holds nothing alive after.
#[derive(Debug, Default)]
pub struct NamePool {
    names: HashSet<SharedText>,
}

impl NamePool {
    /// The shared name equal to `text`.
    pub fn share(&mut self, text: &str) -> SharedText {
        match self.names.get(text) {
            Some(name) => name.clone(),
            None => {
                let name = SharedText::from(text);
                self.names.insert(name.clone());
                name
            }
        }
    }
}
