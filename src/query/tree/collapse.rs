//! Merges chains of frames with a single child each into one frame.

pub(crate) struct Collapsed {
    pub(crate) parent: Vec<u32>,
    /// For each node, the original nodes that it replaces, from the root on.
    pub(crate) chain: Vec<Vec<u32>>,
    /// For each original node, the node that replaces it.
    pub(crate) node_of: Vec<u32>,
}

/// Merges chains. A frame merges with its only child if no weight ends in it.
/// `parent` lists parents before their children; node 0 is the root, and its children stay as they are.
pub(crate) fn collapse(parent: &[u32], ends: impl Fn(u32) -> bool) -> Collapsed {
    let n = parent.len();
    let mut children = vec![0u32; n];
    (1..n).for_each(|i| children[parent[i] as usize] += 1);
    let through = |i: u32| i != 0 && parent[i as usize] != 0 && children[i as usize] == 1 && !ends(i);
    let mut out = Collapsed { parent: vec![0], chain: vec![Vec::new()], node_of: vec![0; n] };
    // The first node of each node's chain.
    let mut start: Vec<u32> = (0..n as u32).collect();
    for i in 1..n as u32 {
        let up = parent[i as usize];
        if through(up) {
            start[i as usize] = start[up as usize];
        }
        if through(i) {
            continue;
        }
        let from = start[i as usize];
        let mut chain = vec![i];
        while chain.last() != Some(&from) {
            chain.push(parent[chain[chain.len() - 1] as usize]);
        }
        chain.reverse();
        let here = out.parent.len() as u32;
        chain.iter().for_each(|n| out.node_of[*n as usize] = here);
        out.parent.push(out.node_of[parent[from as usize] as usize]);
        out.chain.push(chain);
    }
    out
}

/// Joins the names of a chain; a long chain keeps its beginning and its end.
pub fn joined(names: &[&str]) -> String {
    const WHOLE: usize = 6;
    match names {
        [first, second, rest @ .., last] if names.len() > WHOLE => {
            format!("{first} › {second} › … {} … › {last}", rest.len())
        }
        _ => names.join(" › "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_ends_where_it_branches_or_where_time_is_spent() {
        // root, thread, a under it, b under a, then c and d under b; e under c, where nothing else is.
        let parent = [0, 0, 1, 2, 3, 3, 4];
        let out = collapse(&parent, |n| n == 5 || n == 6);
        assert_eq!(out.chain[1..], [vec![1], vec![2, 3], vec![5], vec![4, 6]]);
        assert_eq!(out.parent, [0, 0, 1, 2, 2]);
        let out = collapse(&parent, |n| n == 2 || n == 6);
        assert_eq!(out.chain[1..3], [vec![1], vec![2]]);
    }

    #[test]
    fn a_chain_a_hundred_thousand_deep() {
        let parent: Vec<u32> = (0..100_000u32).map(|i| i.saturating_sub(1)).collect();
        let out = collapse(&parent, |n| n == 99_999);
        assert_eq!((out.parent.len(), out.chain[2].len()), (3, 99_998));
        let names: Vec<&str> = out.chain[2].iter().map(|_| "f").collect();
        assert_eq!(joined(&names), "f › f › … 99995 … › f");
        let few = ["a", "b", "c", "d", "e", "f", "g"];
        assert_eq!(joined(&few[..6]), "a › b › c › d › e › f");
        assert_eq!((joined(&few).as_str(), joined(&few[..3]).as_str()), ("a › b › … 4 … › g", "a › b › c"));
    }
}
