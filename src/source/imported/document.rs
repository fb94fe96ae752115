//! JSON profiles: the members at the top tell which tool wrote them.

use serde::Deserialize;

use super::heapprofile::string_end;
use super::profile::ImportedProfile;
use super::{CHROME_TRACE, ImportError, firefox, heapprofile, speedscope, v8};

/// The members of a file that are looked at.
const MOST_MEMBERS: usize = 64;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pub(super) fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// Returns whether the start of a file is that of a JSON object.
pub(super) fn is_object(head: &[u8]) -> bool {
    let head = without_mark(head).trim_ascii_start();
    head.strip_prefix(b"{").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\""))
}

pub(super) fn read(bytes: &[u8]) -> Result<ImportedProfile, ImportError> {
    let bytes = without_mark(bytes);
    let members = members(bytes);
    let has = |name: &str| members.contains(&name.as_bytes());
    if has("profiles") && has("shared") {
        return match parse(bytes) {
            Ok(file) => speedscope::read(file),
            // Profiles of unknown types may have the same members with other contents.
            Err(error) => Err(parse(bytes).ok().and_then(speedscope::refusal).unwrap_or(error)),
        };
    }
    if has("threads") && has("meta") {
        // Profiles that Firefox did not process have other members, too.
        return firefox::check(parse(bytes)?).and_then(|()| firefox::read(parse(bytes)?));
    }
    if has("snapshot") {
        return Err(ImportError::Unsupported(
            "a heap snapshot of V8 has no call stacks; record a heap profile instead (`node --heap-prof`)",
        ));
    }
    if has("nodes") {
        return v8::read(parse(bytes)?);
    }
    if has("head") && has("timestamps") {
        return heapprofile::read_cpu(bytes);
    }
    if has("head") {
        return heapprofile::read(bytes);
    }
    if has("traceEvents") {
        return Err(ImportError::Unsupported(CHROME_TRACE));
    }
    let names: Vec<_> = members.iter().take(8).map(|member| String::from_utf8_lossy(member)).collect();
    Err(ImportError::OtherJson(names.join(", ")))
}

fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, ImportError> {
    Ok(serde_json::from_slice(bytes)?)
}

/// Returns the names of the object's own members, without parsing their values.
fn members(bytes: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let (mut depth, mut at, mut last) = (0usize, 0, &bytes[..0]);
    while let Some(byte) = bytes.get(at).filter(|_| found.len() < MOST_MEMBERS) {
        at += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 1 => found.push(last),
            b'"' => {
                let start = at;
                at = string_end(bytes, start);
                last = &bytes[start..at];
                at += 1;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_the_object_alone() {
        let text = br#" {"a" : {"b": [1, {"c": ":"}]}, "d\"e": "}", "f":[] , "g"#;
        assert_eq!(members(text), [&b"a"[..], b"d\\\"e", b"f"]);
        assert!(is_object(b"\xef\xbb\xbf{\n \"a") && !is_object(b"{main};foo 1") && !is_object(b"[1]"));
    }
}
