//! What the operator opened of the network: egress profiles and the secrets that they use, checked.
//!
//! Everything is parsed here, once, into values with one spelling. An empty profile allows nothing. A profile must
//! never be made from anything that a caller says.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use ipnet::IpNet;
use rustls_pki_types::CertificateDer;

use crate::types::{DnsName, Endpoint, Host, ProfileName};

/// Every profile by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressSettings {
    /// The profiles.
    pub profiles: BTreeMap<ProfileName, Arc<Profile>>,
}

/// One egress profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: ProfileName,
    /// What is allowed; what no rule allows is denied.
    pub rules: Vec<Rule>,
    /// The secrets that it may use.
    pub secrets: Vec<Arc<SecretSpec>>,
    /// Addresses of names, in the place of what a resolver says.
    pub resolve: BTreeMap<DnsName, Vec<IpAddr>>,
    /// Addresses that are open though they are denied otherwise. Never those of cloud metadata.
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

/// One thing that is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whether it is spoken to under TLS.
    pub scheme: Scheme,
    /// Which hosts.
    pub hosts: HostPattern,
    /// Which port.
    pub port: u16,
    /// Which methods, in capitals; absent: all but CONNECT and TRACE.
    pub methods: Option<Vec<String>>,
    /// Which paths; absent: all.
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

/// Which hosts a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// This one.
    Exactly(Host),
    /// `*.name`: every name below it, not the name itself, no address.
    Below(DnsName),
}

/// The path of a URL, of which the last character of the pattern may be `*`: then whatever begins so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPattern {
    /// This path.
    Exactly(String),
    /// Whatever begins so.
    Prefix(String),
}

/// What becomes of an answer that cannot be searched for secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
