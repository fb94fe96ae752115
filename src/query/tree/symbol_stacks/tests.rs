//! Handmade stacks by name.

use super::*;
use crate::query::staged::Staged;
use crate::session::MapId;
use crate::symbols::Symbolized;

fn names(named: &SymbolStacks, node: NodeId) -> Vec<&FrameName> {
    let mut names: Vec<&FrameName> = named.trie.walk(node).map(|frame| &named.names[frame.0 as usize]).collect();
    names.reverse();
    names
}

fn path(named: &SymbolStacks, node: NodeId) -> String {
    names(named, node).iter().map(|name| &*name.text).collect::<Vec<_>>().join(";")
}

#[test]
fn stacks_are_put_together_by_comm_and_name() {
    let mut staged = Staged::default();
    [(1, "zsh"), (2, "cat"), (3, "zsh")].into_iter().for_each(|(pid, name)| staged.comm(pid, pid, false, name));
    staged.sample(1, 1, &["f", "g"], 3);
    staged.sample(1, 3, &["f", "g"], 4);
    staged.sample(1, 2, &["g"], 5);
    staged.sample(1, 1, &["f"], 7);
    staged.sample(1, 2, &[], 11);
    staged.sample(1, 2, &["lib:f"], 17);
    // A function with the same name at another place in the file.
    let (frame, dso) = (staged.profile.frames.intern_named(1), staged.dso("app"));
    let elsewhere = Symbolized { start: 64, end: 80, name: "f".into(), is_symbol: true };
    staged.profile.frames.set(frame, &dso, 1, Some(elsewhere));
    let other = staged.profile.trie.child(NodeId::ROOT, frame);
    let site = staged.site_at(3, other);
    staged.profile.push(1, site, 13, 0, 0);
    staged.inline("g", &["h", "i"]);
    let named = SymbolStacks::build(staged.data());
    let list = stacks(staged.data(), &named, &staged.fold());
    let shown: Vec<_> =
        list.iter().map(|(comm, node, acc)| (&**comm, path(&named, *node), acc.samples, acc.period)).collect();
    let inlined = "h (inlined);i (inlined)";
    let want = [
        ("cat", String::new(), 1, 11),
        ("cat", format!("g;{inlined}"), 1, 5),
        ("cat", "f".to_owned(), 1, 17),
        ("zsh", "f".to_owned(), 2, 20),
        ("zsh", format!("f;g;{inlined}"), 2, 7),
    ];
    let by_comm = |list: &[(&str, String, u64, u64)]| {
        let mut list: Vec<_> = list.iter().map(|(c, p, n, w)| ((*c).to_owned(), p.clone(), *n, *w)).collect();
        list.sort();
        list
    };
    assert_eq!(by_comm(&shown), by_comm(&want));
    assert!(list.is_sorted_by_key(|(comm, node, _)| (comm.clone(), *node)));
    let f = staged.stack(&["f"]);
    assert_eq!(named.node_of[f.0 as usize], named.node_of[other.0 as usize]);
    let name = |text: &str, dso: &str| FrameName { text: text.into(), kind: DsoKind::File, dso: dso.into() };
    let file = staged.stack(&["lib:f"]);
    assert_eq!(names(&named, named.node_of[file.0 as usize]), [&name("f", "lib")]);
    assert_eq!(names(&named, named.node_of[f.0 as usize]), [&name("f", "app")]);
}

#[test]
fn what_has_no_name_is_its_file() {
    let mut staged = Staged::default();
    let known = staged.session.dsos.named("/usr/lib/libc.so", DsoKind::File);
    let unknown = staged.session.dsos.of_map(MapId::UNKNOWN).clone();
    let mut name = |dso, ip| {
        let frame = staged.profile.frames.intern_named(ip);
        staged.profile.frames.set_unknown(frame, dso, ip);
        let name = name_in(&staged.profile, staged.profile.frames.sym_of(frame));
        (name.text.to_string(), name.dso.to_string(), name.kind)
    };
    assert_eq!(name(&known, 1), ("[libc.so]".into(), "libc.so".into(), DsoKind::File));
    assert_eq!(name(&unknown, 2), ("[unknown]".into(), "[unknown]".into(), DsoKind::Unknown));
}

#[test]
fn samples_come_in_order_with_their_place() {
    let mut staged = Staged::default();
    let sites = [staged.site(1, &["f"]), staged.site(2, &["g"])];
    let n = crate::profile::CHUNK as u64 + 50;
    let row = |i: u64| StackSample {
        at: i,
        time: 5 * i,
        site: sites[i as usize % 2].0,
        period: i + 1,
        cpu: (i % 3) as u16,
        event: (i % 5 / 4) as u16,
    };
    (0..n).map(row).for_each(|r| staged.profile.push(r.time, sites[r.at as usize % 2], r.period, r.cpu, r.event));
    let of = |staged: &Staged, filter: Option<&str>| {
        let filter = filter.map(|text| Arc::new(Filter::parse(text).expect("parses")));
        let mut rows = Vec::new();
        samples(staged.data(), filter, |row| rows.push(row));
        rows
    };
    assert_eq!(of(&staged, None), (0..n).map(row).collect::<Vec<_>>());
    assert_eq!(of(&staged, Some("pid == 2")), (0..n).filter(|i| i % 2 == 1).map(row).collect::<Vec<_>>());
    let both = (0..n).filter(|i| i % 3 == 1 && i % 2 == 0).map(row).collect::<Vec<_>>();
    assert_eq!(of(&staged, Some("cpu == 1 && pid == 1")), both);
    staged.profile.evict().expect("a full chunk");
    assert_eq!(of(&staged, None), (n - 50..n).map(row).collect::<Vec<_>>());
}
