//! Credentials of profile stores, from a file or the environment: the process list shows neither.

use std::path::Path;

use crate::engine::curl::Curl;
use crate::kernel::privilege;

use super::{Usage, config};

pub(crate) enum Credentials {
    /// `USER:PASSWORD`.
    Basic(String),
    Token(String),
}

impl Credentials {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text.strip_prefix("Bearer ").map(str::trim) {
            Some(token) if !token.is_empty() && !token.contains(char::is_whitespace) => {
                Some(Self::Token(token.to_owned()))
            }
            None if text.contains(':') && !text.contains(['\n', '\r']) => Some(Self::Basic(text.to_owned())),
            _ => None,
        }
    }

    /// Reads credentials from the file that an option names, else from an environment variable. Errors do not contain
    /// them.
    pub(crate) fn of(file: Option<&Path>, option: &str, variable: &str) -> anyhow::Result<Option<Self>> {
        let usage = |from: &str| Usage(format!("{from}: expected one line with USER:PASSWORD or Bearer TOKEN"));
        if let Some(path) = file {
            let from = format!("{option} {}", path.display());
            let text = config::private_file(path).map_err(|why| anyhow::anyhow!("{option} {why}"))?;
            let text = text.ok_or_else(|| anyhow::anyhow!("{from}: no such file"))?;
            return Ok(Some(Self::parse(&text).ok_or_else(|| usage(&from))?));
        }
        let Some(text) = privilege::variable(variable) else { return Ok(None) };
        let text = text.to_str().and_then(Self::parse);
        Ok(Some(text.ok_or_else(|| usage(variable))?))
    }

    /// Returns the texts that messages must not contain.
    pub(crate) fn secrets(&self) -> Vec<String> {
        match self {
            Self::Token(token) => vec![token.clone()],
            Self::Basic(text) => text.split_once(':').map(|(_, password)| password.to_owned()).into_iter().collect(),
        }
    }

    /// Adds them to a request.
    pub(crate) fn given(&self, curl: Curl) -> Curl {
        match self {
            Self::Basic(user) => curl.option("user", user),
            Self::Token(token) => curl.option("oauth2-bearer", token),
        }
    }
}
