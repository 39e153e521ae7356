//! The persistent ordered tree: one structure for page directories, indexes, rollups and partitions.
//!
//! A tree is a sorted sequence of leaves under inner nodes that hold separators: separator `i` is greater than every key in child `i` and not
//! greater than any key in child `i + 1`. What a leaf is, the tree does not know: a page of rows, a run of packed keys. Cloning a tree copies one
//! pointer. A change copies the nodes on its path that are shared with another clone and works in place on those that are not, so a batch of
//! changes copies each node at most once.

mod build;
mod bulk;
mod leaves;
mod map;
mod order;
mod packed;
mod pending;
mod separators;

pub(crate) use bulk::PackedBuilder;
pub(crate) use leaves::Leaves;
pub(crate) use map::{Entries, High, KeyRange, PackedMap};
pub(crate) use packed::{Entry, KEY_BYTES_MAX};
pub(crate) use pending::{Deferred, Pending, Pool};

use arrayvec::ArrayVec;
use build::{List, nodes_of};
use separators::Separators;
use std::ops::Range;
use std::sync::Arc;

/// The most children of an inner node. Copying a node touches the reference count of each child, and what a reader searches in a node should lie in
/// two cache lines; a deeper tree costs a reader a cache miss a level.
const CHILDREN_MAX: usize = 16;

/// Fewer children than this, and a node joins a neighbour.
const CHILDREN_MIN: usize = CHILDREN_MAX / 4;

/// More levels than any tree can have: two neighbours have more than `CHILDREN_JOINED_MAX` children together, so twelve levels hold a billion leaves.
const LEVELS_MAX: usize = 12;

/// A leaf of a [`Tree`]. Cloning it is cheap.
pub(crate) trait Leaf: Clone {
    /// Whether it is so small that it should join a neighbour if the two fit.
    fn is_sparse(&self) -> bool;

    /// Both leaves as one, or `None` if that would be too large. `self` holds the smaller keys.
    fn join(&self, right: &Self) -> Option<Self>;
}

/// What a leaf becomes.
pub(crate) enum Edit<L> {
    /// It stays.
    Keep,
    /// One leaf in its place.
    Replace(L),
    /// Several leaves in its place, each but the first with its separator.
    Split(L, Vec<(Vec<u8>, L)>),
    /// Nothing.
    Remove,
}

/// A key that is looked for, with its first bytes as a number, filled up with zeros.
pub(crate) struct Wanted<'k> {
    key: &'k [u8],
    first: u128,
}

impl<'k> Wanted<'k> {
    #[inline]
    pub(crate) fn new(key: &'k [u8]) -> Wanted<'k> {
        let first = match key.first_chunk() {
            Some(bytes) => u128::from_be_bytes(*bytes),
            None => {
                let mut bytes = [0; 16];
                bytes[..key.len()].copy_from_slice(key);
                u128::from_be_bytes(bytes)
            }
        };
        Wanted { key, first }
    }
}

/// Keys in order, some of which may be equal, whose leaves are to be edited together.
pub(crate) trait Keys {
    /// How many there are.
    fn count(&self) -> usize;

    /// The key at a position.
    fn key(&self, position: usize) -> &[u8];
}

/// A single key.
struct Single<'k>(&'k [u8]);

impl Keys for Single<'_> {
    fn count(&self) -> usize {
        1
    }

    fn key(&self, _position: usize) -> &[u8] {
        self.0
    }
}

pub(crate) struct Tree<L> {
    root: Arc<Inner<L>>,
    /// Bytes of inner nodes that were copied since this was last asked: what only earlier versions hold now.
    copied: usize,
}

#[derive(Clone)]
struct Inner<L> {
    separators: Separators,
    children: Children<L>,
}

#[derive(Clone)]
enum Children<L> {
    Leaves(ArrayVec<L, CHILDREN_MAX>),
    Inners(ArrayVec<Arc<Inner<L>>, CHILDREN_MAX>),
}

impl<L> Clone for Tree<L> {
    fn clone(&self) -> Self {
        Tree { root: self.root.clone(), copied: self.copied }
    }
}

impl<L> Default for Tree<L> {
    fn default() -> Self {
        let root =
            Inner { separators: Separators::of(std::iter::empty()), children: Children::Leaves(ArrayVec::new()) };
        Tree { root: Arc::new(root), copied: 0 }
    }
}

impl<L> Tree<L> {
    /// The leaf that holds `key` if any does.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<&L> {
        let wanted = Wanted::new(key);
        let mut node = &self.root;
        loop {
            let position = node.separators.child_of(&wanted);
            match &node.children {
                Children::Leaves(leaves) => return leaves.get(position),
                Children::Inners(inners) => node = &inners[position],
            }
        }
    }

    /// All leaves, in order.
    pub(crate) fn leaves(&self) -> Leaves<'_, L> {
        Leaves::from_start(&self.root)
    }

    /// Leaves in order from the one that `key` belongs to.
    #[inline]
    pub(crate) fn leaves_from(&self, key: &[u8]) -> Leaves<'_, L> {
        Leaves::from_key(&self.root, &Wanted::new(key))
    }

    /// Leaves in falling order from the one that `key` belongs to; from the last one without a key.
    pub(crate) fn leaves_back_from(&self, key: Option<&[u8]>) -> Leaves<'_, L> {
        Leaves::back_from(&self.root, key.map(Wanted::new).as_ref())
    }

    pub(crate) fn take_copied(&mut self) -> usize {
        std::mem::take(&mut self.copied)
    }
}

impl<L: Leaf> Tree<L> {
    /// A tree of these leaves, which are in order; each comes with a separator from the one before it (the first one's is not used).
    pub(crate) fn from_leaves(leaves: Vec<(Vec<u8>, L)>) -> Tree<L> {
        if leaves.is_empty() {
            return Tree::default();
        }
        Tree { root: root_of(nodes_of(leaves, Children::Leaves)), copied: 0 }
    }

    /// Changes the leaf that `key` belongs to; `edit` is given `None` if the tree is empty.
    #[inline]
    pub(crate) fn edit<T>(&mut self, key: &[u8], edit: impl FnOnce(Option<&mut L>) -> (Edit<L>, T)) -> T {
        let (mut edit, mut result) = (Some(edit), None);
        self.edit_all(&Single(key), |leaf, _| match edit.take() {
            Some(edit) => {
                let (change, told) = edit(leaf);
                result = Some(told);
                change
            }
            None => Edit::Keep,
        });
        // INVARIANT: every key belongs to a leaf, or to the place of the first one.
        result.expect("the leaf of a key is edited once")
    }

    /// Changes the leaves that the keys belong to, each once; `edit` is told which of the keys belong to the leaf, and given `None` for it if the
    /// tree is empty.
    pub(crate) fn edit_all<K: Keys>(
        &mut self,
        keys: &K,
        mut edit: impl FnMut(Option<&mut L>, Range<usize>) -> Edit<L>,
    ) {
        if keys.count() == 0 {
            return;
        }
        let others = edit_node(&mut self.root, keys, 0..keys.count(), &mut self.copied, &mut edit);
        if !others.is_empty() {
            let mut nodes = vec![(Vec::new(), self.root.clone())];
            nodes.extend(others);
            self.root = root_of(nodes);
        }
        // Levels with a single node go as soon as they appear.
        loop {
            let only_child = match &self.root.children {
                Children::Inners(inners) if inners.len() == 1 => inners[0].clone(),
                Children::Inners(inners) if inners.is_empty() => Tree::default().root,
                _ => break,
            };
            self.root = only_child;
        }
    }
}

/// Puts levels above these nodes, which are not none, until there is one node.
fn root_of<L>(mut level: List<Arc<Inner<L>>>) -> Arc<Inner<L>> {
    while level.len() > 1 {
        level = nodes_of(level, Children::Inners);
    }
    // INVARIANT: no level becomes empty.
    level.pop().map(|(_, root)| root).expect("there is a node")
}

/// Edits what lies below a node; gives the nodes that are to stand behind it because it became too large.
fn edit_node<L: Leaf, K: Keys>(
    node: &mut Arc<Inner<L>>,
    keys: &K,
    range: Range<usize>,
    copied: &mut usize,
    edit: &mut impl FnMut(Option<&mut L>, Range<usize>) -> Edit<L>,
) -> List<Arc<Inner<L>>> {
    if Arc::strong_count(node) > 1 {
        *copied += node.bytes();
    }
    let node = Arc::make_mut(node);
    let mut from = range.start;
    match &mut node.children {
        Children::Leaves(leaves) => {
            let mut changes = Vec::new();
            while from < range.end {
                let (position, to) = node.separators.share(keys, from..range.end);
                match edit(leaves.get_mut(position), from..to) {
                    Edit::Keep => {}
                    Edit::Replace(leaf) if position < leaves.len() && !leaf.is_sparse() => leaves[position] = leaf,
                    change => changes.push((position, change)),
                }
                from = to;
            }
            if changes.is_empty() { List::new() } else { build::change_leaves(node, changes) }
        }
        Children::Inners(inners) => {
            let (mut changes, mut sparse) = (Vec::new(), false);
            while from < range.end {
                let (position, to) = node.separators.share(keys, from..range.end);
                let others = edit_node(&mut inners[position], keys, from..to, copied, edit);
                sparse |= inners[position].children.len() < CHILDREN_MIN;
                if !others.is_empty() {
                    changes.push((position, others));
                }
                from = to;
            }
            if changes.is_empty() && !sparse { List::new() } else { build::change_inners(node, changes) }
        }
    }
}

impl<L> Inner<L> {
    /// Bytes that a copy of the node takes.
    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

impl<L> Children<L> {
    fn len(&self) -> usize {
        match self {
            Children::Leaves(leaves) => leaves.len(),
            Children::Inners(inners) => inners.len(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
