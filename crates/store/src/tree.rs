//! The persistent ordered tree: one structure for page directories, indexes, rollups and partitions.
//!
//! A tree is a sorted sequence of leaves under inner nodes that hold separators: separator `i` is greater than every key in child `i` and not
//! greater than any key in child `i + 1`. What a leaf is, the tree does not know: a page of rows, a run of packed keys. Cloning a tree copies one
//! pointer. A change copies the nodes on its path that are shared with another clone and works in place on those that are not, so a batch of
//! changes copies each node at most once.

mod leaves;
mod order;
mod packed;
mod separators;

pub(crate) use leaves::Leaves;
pub(crate) use packed::{Entries, High, KEY_BYTES_MAX, KeyRange, PackedBuilder, PackedMap};

use separators::Separators;
use std::sync::Arc;

/// The most children of an inner node. Copying a node touches the reference count of each child, and a deeper tree costs a reader a cache
/// miss a level: 32 was the best of 16, 32, 64 and 128 for a change alone without being worse for a look-up.
const CHILDREN_MAX: usize = 32;

/// Fewer children than this, and a node joins a neighbour.
const CHILDREN_MIN: usize = CHILDREN_MAX / 4;

/// More levels than any tree can have: with `CHILDREN_MIN` children a node, eight levels hold 16 million leaves.
const LEVELS_MAX: usize = 8;

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

pub(crate) struct Tree<L> {
    root: Arc<Inner<L>>,
    /// Bytes of inner nodes that were copied since this was last asked: what only earlier versions hold now.
    copied: usize,
}

struct Inner<L> {
    separators: Separators,
    children: Children<L>,
}

enum Children<L> {
    Leaves(Vec<L>),
    Inners(Vec<Arc<Inner<L>>>),
}

impl<L> Clone for Tree<L> {
    fn clone(&self) -> Self {
        Tree { root: self.root.clone(), copied: 0 }
    }
}

impl<L: Clone> Clone for Inner<L> {
    fn clone(&self) -> Self {
        // One spare place each: most copies are made to insert.
        let children = match &self.children {
            Children::Leaves(leaves) => Children::Leaves(leaves.clone()),
            Children::Inners(inners) => Children::Inners(inners.clone()),
        };
        Inner { separators: self.separators.clone(), children }
    }
}

impl<L> Default for Tree<L> {
    fn default() -> Self {
        let root = Inner { separators: Separators::default(), children: Children::Leaves(Vec::new()) };
        Tree { root: Arc::new(root), copied: 0 }
    }
}

impl<L> Tree<L> {
    /// The leaf that holds `key` if any does.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<&L> {
        let mut node = &self.root;
        loop {
            let position = node.separators.child_of(key);
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
    pub(crate) fn leaves_from(&self, key: &[u8]) -> Leaves<'_, L> {
        Leaves::from_key(&self.root, key)
    }

    /// Leaves in falling order from the one that `key` belongs to; from the last one without a key.
    pub(crate) fn leaves_back_from(&self, key: Option<&[u8]>) -> Leaves<'_, L> {
        Leaves::back_from(&self.root, key)
    }
}

impl<L> Tree<L> {
    pub(crate) fn take_copied(&mut self) -> usize {
        std::mem::take(&mut self.copied)
    }
}

impl<L: Leaf> Tree<L> {
    /// A tree of these leaves, which are in order; each comes with a separator from the one before it (the first one's is not used).
    pub(crate) fn from_leaves(leaves: Vec<(Vec<u8>, L)>) -> Tree<L> {
        let mut level: Vec<(Vec<u8>, Arc<Inner<L>>)> = Vec::new();
        let mut rest = leaves.into_iter().peekable();
        if rest.peek().is_none() {
            return Tree::default();
        }
        let per_node = CHILDREN_MAX * 3 / 4;
        while rest.peek().is_some() {
            let group: Vec<_> = rest.by_ref().take(per_node).collect();
            level.push(Inner::of(group, Children::Leaves));
        }
        while level.len() > 1 {
            let mut rest = level.into_iter().peekable();
            level = Vec::new();
            while rest.peek().is_some() {
                let group: Vec<_> = rest.by_ref().take(per_node).collect();
                level.push(Inner::of(group, Children::Inners));
            }
        }
        level.pop().map_or_else(Tree::default, |(_, root)| Tree { root, copied: 0 })
    }

    /// Changes the leaf that `key` belongs to; `edit` is given `None` if the tree is empty.
    pub(crate) fn edit<T>(&mut self, key: &[u8], edit: impl FnOnce(Option<&mut L>) -> (Edit<L>, T)) -> T {
        let (split, result) = edit_node(&mut self.root, key, &mut self.copied, edit);
        if let Some((separator, right)) = split {
            let left = self.root.clone();
            let mut separators = Separators::default();
            separators.insert(0, &separator);
            self.root = Arc::new(Inner { separators, children: Children::Inners(vec![left, right]) });
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
        result
    }
}

impl<L: Clone> Inner<L> {
    fn of<C>(group: Vec<(Vec<u8>, C)>, children: fn(Vec<C>) -> Children<L>) -> (Vec<u8>, Arc<Inner<L>>) {
        let mut separators = Separators::default();
        let mut first = None;
        let mut nodes = Vec::with_capacity(group.len());
        for (separator, child) in group {
            match first {
                None => first = Some(separator),
                Some(_) => separators.push(&separator),
            }
            nodes.push(child);
        }
        (first.unwrap_or_default(), Arc::new(Inner { separators, children: children(nodes) }))
    }
}

type Split<L> = Option<(Vec<u8>, Arc<Inner<L>>)>;

fn edit_node<L: Leaf, T>(
    node: &mut Arc<Inner<L>>,
    key: &[u8],
    copied: &mut usize,
    edit: impl FnOnce(Option<&mut L>) -> (Edit<L>, T),
) -> (Split<L>, T) {
    if Arc::strong_count(node) > 1 {
        *copied += node.bytes();
    }
    let node = Arc::make_mut(node);
    let position = node.separators.child_of(key);
    let result = match &mut node.children {
        Children::Leaves(leaves) => {
            let (change, result) = edit(leaves.get_mut(position));
            edit_leaves(&mut node.separators, leaves, position, change);
            result
        }
        Children::Inners(inners) => {
            let (split, result) = edit_node(&mut inners[position], key, copied, edit);
            if let Some((separator, right)) = split {
                node.separators.insert(position, &separator);
                inners.insert(position + 1, right);
            } else if inners[position].children.len() < CHILDREN_MIN {
                join_inners(&mut node.separators, inners, position);
            }
            result
        }
    };
    (node.split_if_full(), result)
}

fn edit_leaves<L: Leaf>(separators: &mut Separators, leaves: &mut Vec<L>, position: usize, change: Edit<L>) {
    match change {
        Edit::Keep => {}
        Edit::Replace(leaf) if leaves.is_empty() => leaves.push(leaf),
        Edit::Replace(leaf) => {
            let sparse = leaf.is_sparse();
            leaves[position] = leaf;
            if sparse {
                join_leaves(separators, leaves, position);
            }
        }
        Edit::Split(first, others) => {
            if leaves.is_empty() {
                leaves.push(first);
            } else {
                leaves[position] = first;
            }
            for (offset, (separator, leaf)) in others.into_iter().enumerate() {
                separators.insert(position + offset, &separator);
                leaves.insert(position + offset + 1, leaf);
            }
        }
        Edit::Remove => {
            leaves.remove(position);
            separators.remove_child(position);
        }
    }
}

fn join_leaves<L: Leaf>(separators: &mut Separators, leaves: &mut Vec<L>, position: usize) {
    for left in [Some(position), position.checked_sub(1)].into_iter().flatten().filter(|left| left + 1 < leaves.len()) {
        if let Some(joined) = leaves[left].join(&leaves[left + 1]) {
            leaves[left] = joined;
            leaves.remove(left + 1);
            separators.remove(left);
            return;
        }
    }
}

fn join_inners<L: Leaf>(separators: &mut Separators, inners: &mut Vec<Arc<Inner<L>>>, position: usize) {
    if inners[position].children.len() == 0 {
        inners.remove(position);
        separators.remove_child(position);
        return;
    }
    for left in [Some(position), position.checked_sub(1)].into_iter().flatten().filter(|left| left + 1 < inners.len()) {
        if inners[left].children.len() + inners[left + 1].children.len() <= CHILDREN_MAX * 3 / 4 {
            let right = inners.remove(left + 1);
            let between = separators.remove(left);
            let target = Arc::make_mut(&mut inners[left]);
            target.separators.push(&between);
            target.separators.append(&right.separators);
            match (&mut target.children, &right.children) {
                (Children::Leaves(target), Children::Leaves(right)) => target.extend_from_slice(right),
                (Children::Inners(target), Children::Inners(right)) => target.extend_from_slice(right),
                // INVARIANT: neighbours under one parent are of one level.
                _ => unreachable!("neighbours of different levels"),
            }
            return;
        }
    }
}

impl<L> Inner<L> {
    fn bytes(&self) -> usize {
        let child = match &self.children {
            Children::Leaves(_) => size_of::<L>(),
            Children::Inners(_) => size_of::<Arc<Inner<L>>>(),
        };
        size_of::<Self>() + self.separators.bytes() + self.children.len() * child
    }
}

impl<L: Leaf> Inner<L> {
    fn split_if_full(&mut self) -> Split<L> {
        let length = self.children.len();
        if length <= CHILDREN_MAX {
            return None;
        }
        let middle = length / 2;
        let right_children = match &mut self.children {
            Children::Leaves(leaves) => Children::Leaves(leaves.split_off(middle)),
            Children::Inners(inners) => Children::Inners(inners.split_off(middle)),
        };
        let (separator, right_separators) = self.separators.split_at(middle - 1);
        Some((separator, Arc::new(Inner { separators: right_separators, children: right_children })))
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
