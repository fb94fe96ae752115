//! Names of TCP ports from /etc/services (services(5)).

use std::fs::File;
use std::io::Read;

use rustc_hash::FxHashMap;

/// The limit of bytes that are read.
const MOST: u64 = 4 << 20;

/// Names of TCP ports.
#[derive(Clone, Debug, Default)]
pub struct ServiceNames(FxHashMap<u16, Box<str>>);

impl ServiceNames {
    /// Reads the names of this machine; without the file there are none.
    pub(crate) fn read() -> Self {
        let mut text = Vec::new();
        let read = File::open("/etc/services").and_then(|file| file.take(MOST).read_to_end(&mut text));
        Self::parse(&String::from_utf8_lossy(&text[..read.unwrap_or(0)]))
    }

    /// Parses lines such as `postgresql 5432/tcp postgres # comment`. The first name of a port counts.
    fn parse(text: &str) -> Self {
        let mut names = FxHashMap::default();
        for line in text.lines() {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let (Some(name), Some((port, "tcp"))) = (words.next(), words.next().and_then(|word| word.split_once('/')))
            else {
                continue;
            };
            if let Ok(port) = port.parse() {
                names.entry(port).or_insert_with(|| name.into());
            }
        }
        Self(names)
    }

    /// Returns the name of a port.
    pub(crate) fn name(&self, port: u16) -> Option<&str> {
        self.0.get(&port).map(AsRef::as_ref)
    }
}

impl<'a> FromIterator<(u16, &'a str)> for ServiceNames {
    fn from_iter<T: IntoIterator<Item = (u16, &'a str)>>(names: T) -> Self {
        Self(names.into_iter().map(|(port, name)| (port, name.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_have_the_first_name_of_tcp() {
        let text = "# comment\nssh 22/tcp\ndomain 53/udp\ndomain 53/tcp # DNS\npostgresql\t5432/tcp postgres\n\
                    other 5432/tcp\nbad x/tcp\nbad 70000/tcp\nnothing\n9/tcp\nhttp 80\n#tftp 69/tcp";
        let names = ServiceNames::parse(text);
        let found = [22, 53, 5432, 9, 80, 69].map(|port| names.name(port));
        assert_eq!(found, [Some("ssh"), Some("domain"), Some("postgresql"), None, None, None]);
        assert_eq!(names.0.len(), 3);
    }
}
