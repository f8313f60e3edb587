//! Profiles and secrets as they are written. Nothing is checked here but the kinds of values.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

use super::{CallerKind, Uninspectable};
use crate::config::table;

/// What one egress profile opens of the network. What no rule allows is denied.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct RawProfile {
    /// Which hosts may be reached, and how. Default: none.
    pub(super) allow: Vec<RawRule>,
    /// The secrets that it may use, by their names in `[secrets]`. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) secrets: Vec<String>,
    /// Addresses of names, instead of what DNS says.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) resolve: BTreeMap<String, Vec<String>>,
    /// Ranges of private, local or reserved addresses that are open for its hosts, such as 10.1.0.0/16. The addresses of
    /// cloud metadata stay closed also within them. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) allow_private: Vec<String>,
    /// A PEM file of certificates that servers may be signed by, beside the system's; relative to this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) upstream_ca: Option<PathBuf>,
    /// Whether an answer that cannot be searched for secrets is kept from the program ("block") or passes ("pass").
    /// Default: "block" with secrets, else "pass".
    pub(super) uninspectable: Option<Uninspectable>,
    /// Which callers may name it: "local", the user who started the server; "token", whoever shows the token over HTTP.
    /// Default: both.
    pub(super) callers: Option<Vec<CallerKind>>,
    /// How much one run may use of it.
    #[serde(deserialize_with = "table::one")]
    pub(super) budget: RawBudget,
}

/// How much one run may use of a profile.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct RawBudget {
    /// Requests and connections asked for, denied ones included. Default 1000.
    pub(super) requests: Option<u64>,
    /// Connections at a time. Default 32, which is the most.
    pub(super) connections: Option<u32>,
    /// How much may be sent, in MiB. Default 64.
    pub(super) sent_mib: Option<u64>,
    /// How much may be received, in MiB. Default 1024.
    pub(super) received_mib: Option<u64>,
    /// How long one connection may last, in seconds. Default 300.
    pub(super) seconds: Option<u64>,
}

/// One thing that is allowed: a host, or a table that narrows it down.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub(in crate::config) enum RawRule {
    /// `host`, `host:port`, `*.host`, `http://host:port`; port 443 unless it is said.
    Text(String),
    /// A host with methods, paths or `tunnel`.
    Table(RawRuleTable),
}

/// A host, and what of it is allowed.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawRuleTable {
    /// `host`, `host:port`, `*.host`, `http://host:port`.
    pub(super) host: String,
    /// The port, where `host` does not say it. Default 443; 80 for `http://`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) port: Option<u16>,
    /// The methods that are allowed, such as GET. Default: all but CONNECT and TRACE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) methods: Option<Vec<String>>,
    /// The paths that are allowed; `*` at the end stands for whatever follows. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) paths: Option<Vec<String>>,
    /// Whether TLS passes through unread, compared by server name only: for clients that pin certificates. Never with
    /// methods, paths or secrets. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) tunnel: bool,
}

/// Written by hand, since an untagged enum would not say which key of a table is wrong.
impl<'de> Deserialize<'de> for RawRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = RawRule;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a host as a string, or a table with the key `host`")
            }

            fn visit_str<E>(self, text: &str) -> Result<RawRule, E> {
                Ok(RawRule::Text(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawRule, A::Error> {
                RawRuleTable::deserialize(MapAccessDeserializer::new(map)).map(RawRule::Table)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// A credential that programs can use and never see.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct RawSecret {
    /// Where it comes from: exactly one of env, file and command.
    pub(super) from: RawSource,
    /// Where it may go, as `host` or `host:port`, over HTTPS only. Every profile that uses the secret must allow them.
    pub(super) hosts: Vec<String>,
    /// How it gets into a request: exactly one of header, basic and placeholder.
    pub(super) inject: RawInjection,
}

/// Where a secret comes from. It never stands in this file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a table such as { env = \"NAME\" }"
)]
pub(in crate::config) struct RawSource {
    /// A variable of the server's environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) env: Option<String>,
    /// A file, as an absolute path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<PathBuf>,
    /// A command that prints it: an absolute path or a name, and arguments. It runs once per run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) command: Option<Vec<String>>,
    /// How long what the command prints can be used, in seconds. Default 600.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ttl_seconds: Option<u64>,
}

/// How a secret gets into a request.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a table such as { header = \"Authorization\", format = \"Bearer {}\" }"
)]
pub(in crate::config) struct RawInjection {
    /// The header that is set; one of the program's is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) header: Option<String>,
    /// The header's value; `{}` stands for the secret. Default "{}".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) format: Option<String>,
    /// The user of `Authorization: Basic`; the secret is the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) basic: Option<String>,
    /// The variable in which the program finds a random stand-in, which it sends in a header of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) placeholder: Option<String>,
}
