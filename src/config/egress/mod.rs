//! What the operator opened of the network: egress profiles and the secrets that they use, checked.
//!
//! Everything is parsed here, once, into values with one spelling. An empty profile allows nothing. A profile must
//! never be made from anything that a caller says.

mod authorities;
mod budget;
mod problem;
mod profile;
pub(super) mod raw;
mod rule;
mod secret;
mod variables;

use std::{collections::BTreeMap, fmt, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use ipnet::IpNet;
use rustls_pki_types::CertificateDer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use problem::EgressProblem;
pub(super) use profile::{RawResolve, authorities, ranges, raw_ranges, raw_resolve, resolve};
pub use variables::is_reserved_variable;

use crate::types::{DnsName, Endpoint, Host, ProfileName};

/// The most profiles, and the most secrets. Like every bound on a list here it stops a slip of the finger or a file that
/// is no configuration; no operator comes near.
const MAX_ENTRIES: usize = 64;
/// The most rules of a profile: each request is compared with all.
const MAX_RULES: usize = 256;
/// The most methods of a rule.
const MAX_METHODS: usize = METHODS.len();
/// The most paths of a rule.
const MAX_PATHS: usize = 64;
/// The longest path of a rule, in bytes.
const MAX_PATH_BYTES: usize = 1024;
/// The most secrets of a profile: every answer is searched for each in many forms.
const MAX_PROFILE_SECRETS: usize = 16;
/// The most hosts of a secret.
const MAX_SECRET_HOSTS: usize = 32;
/// The most names with addresses of their own, and the most open ranges, of a profile.
const MAX_ADDRESSES: usize = 256;
/// The most addresses of one name.
const MAX_ADDRESSES_OF_NAME: usize = 16;
/// The longest file of certificates, in bytes: one named by mistake, such as a disk, must not fill the memory.
const MAX_CA_BYTES: u64 = 1024 * 1024;
/// The most words of a command.
const MAX_COMMAND_WORDS: usize = 32;
/// The most connections of one run at a time: each has buffers on both sides. As many as the tether carries.
pub const MAX_CONNECTIONS: u32 = 32;
/// The methods that a rule can name.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
/// What the name of a secret is, for messages.
const SECRET_NAME_RULE: &str = "names have up to 64 letters, digits, `-`, `_` and `.`";

/// Every profile and every secret by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressSettings {
    /// The profiles.
    pub profiles: BTreeMap<ProfileName, Arc<Profile>>,
    /// The secrets, also those that no profile uses.
    pub secrets: BTreeMap<String, Arc<SecretSpec>>,
    /// Where the certificates of profiles were read from, as it is written, to be shown.
    pub upstream_ca: BTreeMap<ProfileName, PathBuf>,
}

/// One egress profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: ProfileName,
    /// What is allowed; what no rule allows is denied. Those with the same pattern and port agree in how it is spoken to:
    /// scheme and tunnel.
    pub rules: Vec<Rule>,
    /// The secrets that it may use.
    pub secrets: Vec<Arc<SecretSpec>>,
    /// Addresses of names, in the place of what a resolver says.
    pub resolve: BTreeMap<DnsName, Vec<IpAddr>>,
    /// Addresses that are open though they are denied otherwise. A range may cover those of cloud metadata, and does not
    /// open them.
    pub allow_private: Vec<IpNet>,
    /// Certificates that servers may be signed by, beside the system's.
    pub upstream_ca: Vec<CertificateDer<'static>>,
    /// What becomes of an answer that cannot be searched for secrets.
    pub uninspectable: Uninspectable,
    /// How much one run may use.
    pub budget: Budget,
    /// Who may name it.
    pub callers: Vec<CallerKind>,
}

impl Profile {
    /// The variables in which programs find stand-ins for secrets.
    pub fn stand_ins(&self) -> impl Iterator<Item = &str> {
        self.secrets
            .iter()
            .filter_map(|secret| match &secret.inject {
                Injection::Placeholder { variable } => Some(variable.as_str()),
                Injection::Header { .. } | Injection::Basic { .. } => None,
            })
    }
}

/// One thing that is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whether it is spoken to under TLS.
    pub scheme: Scheme,
    /// Which hosts.
    pub hosts: HostPattern,
    /// Which port.
    pub port: u16,
    /// Which methods, in capitals, at least one; absent: all but CONNECT and TRACE.
    pub methods: Option<Vec<String>>,
    /// Which paths, at least one; absent: all.
    pub paths: Option<Vec<PathPattern>>,
    /// Passed through unread, compared by server name only. Never with methods, paths or secrets.
    pub tunnel: bool,
}

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// HTTP under TLS.
    Https,
    /// HTTP in the clear, only where the operator wrote `http://`.
    Http,
}

impl Scheme {
    /// The port of a rule that says none.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }
}

/// Which hosts a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// This one.
    Exactly(Host),
    /// `*.name`: every name below it, not the name itself, no address.
    Below(DnsName),
}

impl HostPattern {
    /// Whether it is about this host.
    #[must_use]
    pub fn covers(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Exactly(own), host) => own == host,
            (Self::Below(above), Host::Name(name)) => name
                .as_str()
                .strip_suffix(above.as_str())
                .is_some_and(|labels| labels.ends_with('.')),
            (Self::Below(_), Host::Ip(_)) => false,
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(host) => host.fmt(f),
            Self::Below(name) => write!(f, "*.{name}"),
        }
    }
}

/// The path of a URL in its canonical form: escapes in capitals and of no character that needs none, no empty, `.` or
/// `..` segment, no separator that is escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPattern {
    /// This path.
    Exactly(String),
    /// Whatever begins so.
    Prefix(String),
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(path) => f.write_str(path),
            Self::Prefix(path) => write!(f, "{path}*"),
        }
    }
}

/// What becomes of an answer that cannot be searched for secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Uninspectable {
    /// It does not reach the program.
    Block,
    /// It passes as it is.
    Pass,
}

/// How much one run may use of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Requests and connections asked for, denied ones included.
    pub requests: u64,
    /// Connections at a time.
    pub connections: u32,
    /// Bytes to the outside.
    pub sent_bytes: u64,
    /// Bytes from the outside.
    pub received_bytes: u64,
    /// How long one connection may last.
    pub duration: Duration,
}

/// Who may name a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallerKind {
    /// The user who started the server, over its standard streams and on the command line.
    Local,
    /// Whoever shows the token, over HTTP.
    Token,
}

/// A credential that stays in the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretSpec {
    /// Its name, for messages and the log.
    pub name: String,
    /// Where it comes from.
    pub from: SecretSource,
    /// Where it may go, over verified TLS; every one is allowed by a rule that is no tunnel.
    pub hosts: Vec<Endpoint>,
    /// How it gets into a request.
    pub inject: Injection,
}

/// Where a secret comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// A variable of the server's environment.
    Env(String),
    /// A file of this machine, without the line feed at its end.
    File(PathBuf),
    /// What a command prints, without the line feed at its end.
    Command {
        /// The command and its arguments.
        argv: Vec<String>,
        /// How long what it prints can be used.
        ttl: Duration,
    },
}

/// How a secret gets into a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Injection {
    /// This header is set; one of the program's is dropped. `{}` in `format` stands for the secret.
    Header {
        /// Its name, in lower case.
        name: String,
        /// Its value.
        format: String,
    },
    /// `Authorization: Basic` with this user and the secret as the password.
    Basic {
        /// The user's name.
        user: String,
    },
    /// The program finds a random stand-in in this variable and sends it in a header of its own.
    Placeholder {
        /// The variable.
        variable: String,
    },
}
