//! What the log says of one connection or request that a program wanted to make.

use serde::{Deserialize, Serialize};

use super::event::{MAX_LISTED, cut_text};
use crate::types::{MAX_METHOD_BYTES, MAX_TARGET_BYTES};

/// The longest of the other texts, in bytes.
const MAX_WORD_BYTES: usize = 256;

/// One connection or request, in the form in which it was decided on and sent. The verdict is the line's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressRecord {
    /// The method; `CONNECT` for a connection as such; none where nobody could tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// `https` or `http`; none for a connection as such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// The canonical host; where it is none, what came, with visible escapes and cut.
    pub host: String,
    /// The port; 0 where there was none.
    pub port: u16,
    /// The canonical path and query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The address that was checked and is dialled, where that is known by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The names of the secrets that were put in, never a value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
}

impl EgressRecord {
    /// Cuts every text to its bound, with `…`. Methods and targets are that long only where they were denied.
    pub(super) fn bound(&mut self) {
        self.secrets.truncate(MAX_LISTED);
        if let Some(method) = &mut self.method {
            cut_text(method, MAX_METHOD_BYTES);
        }
        let words = [&mut self.scheme, &mut self.address];
        for word in words
            .into_iter()
            .flatten()
            .chain([&mut self.host])
            .chain(&mut self.secrets)
        {
            cut_text(word, MAX_WORD_BYTES);
        }
        if let Some(target) = &mut self.target {
            cut_text(target, MAX_TARGET_BYTES);
        }
    }
}

/// How often a run was let out, and how often not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressCounts {
    /// Requests and passed-through connections that were allowed.
    pub allowed: u64,
    /// Those that were denied.
    pub denied: u64,
    /// Of the allowed ones those that came to nothing: the other side was down, slow or broken.
    #[serde(default)]
    pub failed: u64,
}
