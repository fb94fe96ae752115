//! The names of Podman's pods, from its database: BoltDB's `libpod/bolt_state.db`, or SQLite's `db.sql` since version
//! 5.

use std::path::Path;

use super::Opened;

const FILES: [&str; 2] = ["libpod/bolt_state.db", "db.sql"];

/// Returns the name of a pod. Both databases store its configuration as contiguous JSON that begins with id and name
/// (libpod's `PodConfig`). An id is never reused, so a match in an unused page is valid, too.
pub(super) fn pod(storage: &Path, id: &str) -> Option<String> {
    let storage = Opened::of(storage)?;
    FILES.iter().find_map(|file| name_in(&storage.read(Path::new(file))?, id))
}

fn name_in(bytes: &[u8], id: &str) -> Option<String> {
    let head = format!("{{\"id\":\"{id}\",\"name\":");
    let value = |at: usize| {
        let rest = bytes.get(at + head.len()..)?;
        serde_json::Deserializer::from_slice(rest).into_iter::<String>().next()?.ok()
    };
    memchr::memmem::find_iter(bytes, head.as_bytes()).find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_name_follows_its_id() {
        let database = b"\0\x03{\"id\":\"07\",\"name\":\"\xff{\"id\":\"07\",\"name\":\"a \\\"b\\\"\",\"labels\":{}}\0{\"id\":\"08\"";
        assert_eq!(name_in(database, "07").as_deref(), Some("a \"b\""));
        assert_eq!(name_in(database, "08"), None);
        assert_eq!(name_in(b"{\"id\":\"09\",\"name\":\"cut", "09"), None);
    }
}
