//! Putting inner nodes together: what happens when leaves or nodes come, go, split or join.

use super::separators::Separators;
use super::{CHILDREN_MAX, CHILDREN_MIN, Children, Edit, Inner, Leaf};
use arrayvec::ArrayVec;
use std::borrow::Cow;
use std::sync::Arc;

/// Nodes or leaves in order, each with the separator before it; the first one's is not used.
pub(super) type List<C> = Vec<(Vec<u8>, C)>;

/// The same while a node is put together anew, with the separators that it had borrowed from it.
type Parts<'t, C> = Vec<(Cow<'t, [u8]>, C)>;

/// Two nodes join only up to so many children, and nodes made at once have no more, so that the next insert does not split them.
const CHILDREN_JOINED_MAX: usize = CHILDREN_MAX * 3 / 4;

/// How children are kept in a node.
type Kept<L, C> = fn(ArrayVec<C, CHILDREN_MAX>) -> Children<L>;

/// The nodes above these children, as few and as equally filled as can be; each with the separator before its first child.
pub(super) fn nodes_of<L, C>(list: List<C>, kept: Kept<L, C>) -> List<Arc<Inner<L>>> {
    nodes_of_parts(list.into_iter().map(|(separator, child)| (Cow::Owned(separator), child)).collect(), kept)
}

fn nodes_of_parts<L, C>(list: Parts<'_, C>, kept: Kept<L, C>) -> List<Arc<Inner<L>>> {
    let total = list.len();
    let count = if total <= CHILDREN_MAX { 1 } else { total.div_ceil(CHILDREN_JOINED_MAX) };
    let mut rest = list.into_iter();
    let node = |number: usize| {
        let length = total * (number + 1) / count - total * number / count;
        let (texts, children): (ArrayVec<_, CHILDREN_MAX>, ArrayVec<_, CHILDREN_MAX>) =
            rest.by_ref().take(length).unzip();
        let separators = Separators::of(texts.iter().skip(1).map(Cow::as_ref));
        let node = Inner { separators, children: kept(children) };
        (texts.into_iter().next().map_or_else(Vec::new, Cow::into_owned), Arc::new(node))
    };
    (0..count).map(node).collect()
}

/// Puts these nodes in the place of one; gives those that are to stand behind it.
fn put<L>(node: &mut Inner<L>, nodes: List<Arc<Inner<L>>>) -> List<Arc<Inner<L>>> {
    let mut nodes = nodes.into_iter();
    if let Some(first) = nodes.next().and_then(|(_, first)| Arc::into_inner(first)) {
        *node = first;
    }
    nodes.collect()
}

/// Makes changes of leaves that the children of a node cannot take one by one. Positions rise.
pub(super) fn change_leaves<L: Leaf>(node: &mut Inner<L>, changes: Vec<(usize, Edit<L>)>) -> List<Arc<Inner<L>>> {
    let Children::Leaves(leaves) = &mut node.children else { return List::new() };
    let mut changes = changes.into_iter().peekable();
    let separators = node.separators.clone();
    let mut list = Parts::with_capacity(CHILDREN_MAX + 1);
    let leaves = std::mem::take(leaves);
    // The first change of an empty node has nothing to stand in the place of.
    let places = leaves.len().max(1);
    for (position, leaf) in leaves.into_iter().map(Some).chain([None]).take(places).enumerate() {
        let separator = Cow::Borrowed(separators.before(position));
        match changes.next_if(|(changed, _)| *changed == position).map(|(_, change)| change) {
            None | Some(Edit::Keep) => list.extend(leaf.map(|leaf| (separator, leaf))),
            Some(Edit::Replace(leaf)) => list.push((separator, leaf)),
            Some(Edit::Split(first, others)) => {
                list.push((separator, first));
                list.extend(others.into_iter().map(|(separator, leaf)| (Cow::Owned(separator), leaf)));
            }
            Some(Edit::Remove) => {}
        }
    }
    join(&mut list, L::is_sparse, |left, right, _| left.join(right));
    put(node, nodes_of_parts(list, Children::Leaves))
}

/// Puts nodes behind some of the children of a node, and joins those that have become small. Positions rise.
pub(super) fn change_inners<L: Leaf>(
    node: &mut Inner<L>,
    others: Vec<(usize, List<Arc<Inner<L>>>)>,
) -> List<Arc<Inner<L>>> {
    let Children::Inners(inners) = &mut node.children else { return List::new() };
    let mut others = others.into_iter().peekable();
    let separators = node.separators.clone();
    let mut list = Parts::with_capacity(CHILDREN_MAX + 1);
    for (position, inner) in std::mem::take(inners).into_iter().enumerate() {
        if inner.children.len() > 0 {
            list.push((Cow::Borrowed(separators.before(position)), inner));
        }
        let behind = others.next_if(|(changed, _)| *changed == position).map(|(_, others)| others);
        list.extend(behind.into_iter().flatten().map(|(separator, inner)| (Cow::Owned(separator), inner)));
    }
    join(&mut list, |inner| inner.children.len() < CHILDREN_MIN, join_inners);
    put(node, nodes_of_parts(list, Children::Inners))
}

/// Joins neighbours of which one is sparse, where they fit.
fn join<C>(list: &mut Parts<'_, C>, is_sparse: impl Fn(&C) -> bool, join: impl Fn(&C, &C, &[u8]) -> Option<C>) {
    let mut at = 1;
    while at < list.len() {
        let ((_, left), (separator, right)) = (&list[at - 1], &list[at]);
        let joined = if is_sparse(left) || is_sparse(right) { join(left, right, separator) } else { None };
        match joined {
            Some(joined) => {
                list[at - 1].1 = joined;
                list.remove(at);
            }
            None => at += 1,
        }
    }
}

fn join_inners<L: Leaf>(left: &Arc<Inner<L>>, right: &Arc<Inner<L>>, between: &[u8]) -> Option<Arc<Inner<L>>> {
    if left.children.len() + right.children.len() > CHILDREN_JOINED_MAX {
        return None;
    }
    let texts = left.separators.iter().chain([between]).chain(right.separators.iter());
    let separators = Separators::of(texts);
    let children = match (&left.children, &right.children) {
        (Children::Leaves(left), Children::Leaves(right)) => {
            Children::Leaves(left.iter().chain(right).cloned().collect())
        }
        (Children::Inners(left), Children::Inners(right)) => {
            Children::Inners(left.iter().chain(right).cloned().collect())
        }
        // INVARIANT: neighbours under one parent are of one level.
        _ => unreachable!("neighbours of different levels"),
    };
    Some(Arc::new(Inner { separators, children }))
}
