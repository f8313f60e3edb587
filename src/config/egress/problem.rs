//! What can be wrong with a profile or a secret. Each message stands after the key, says what was found, and what to do.

use std::path::PathBuf;

use super::{MAX_CA_BYTES, MAX_COMMAND_WORDS, METHODS, SECRET_NAME_RULE};
use crate::{
    config::Problem,
    types::{Endpoint, Host, HostError, ProfileNameError},
};

/// What is wrong with one key below `[egress]` or `[secrets]`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EgressProblem {
    /// More than anybody needs: a slip, or a file that is no configuration.
    #[error("there are {found} entries, and at most {most} are allowed")]
    TooMany {
        /// How many there are.
        found: usize,
        /// The most.
        most: usize,
    },
    /// A list that would allow nothing where it is there to narrow down.
    #[error("the list is empty: name something, or leave the key out")]
    EmptyList,
    /// One thing named twice.
    #[error("{found:?} stands there twice: leave one out")]
    Twice {
        /// What was found.
        found: String,
    },
    /// A name that no call could give, or that means something else.
    #[error("the name {found:?} cannot be used: {error}")]
    ProfileName {
        /// The name in the file.
        found: String,
        /// What names are.
        error: ProfileNameError,
    },
    /// A name that could not be shown plainly.
    #[error("the name {found:?} cannot be used: {SECRET_NAME_RULE}")]
    SecretName {
        /// The name in the file.
        found: String,
    },

    /// Not a host.
    #[error("the host {found:?} {error}")]
    Host {
        /// The value in the file.
        found: String,
        /// What is wrong with it.
        error: HostError,
    },
    /// An address where a host belongs.
    #[error("{found:?} has a scheme: write host or host:port")]
    HostScheme {
        /// The value in the file.
        found: String,
    },
    /// Another protocol than HTTP.
    #[error("{found:?} has a scheme other than http:// and https://: nothing else goes out")]
    RuleScheme {
        /// The value in the file.
        found: String,
    },
    /// More than a host and a port.
    #[error(
        "{found:?} has more than a host and a port: paths go into a table, {{ host = \"…\", paths = [\"/…\"] }}"
    )]
    RuleTail {
        /// The value in the file.
        found: String,
    },
    /// Two ports.
    #[error("{found:?} says a port, and the key `port` says one too: leave one out")]
    PortTwice {
        /// The value in the file.
        found: String,
    },
    /// Every host.
    #[error("{found:?} would open every host: name the hosts")]
    WildcardAll {
        /// The value in the file.
        found: String,
    },
    /// A `*` that covers who knows what.
    #[error("{found:?} has a `*` that is not the `*.` before a name: only that is a wildcard")]
    WildcardPlace {
        /// The value in the file.
        found: String,
    },
    /// An address has nothing below it.
    #[error("{found:?} is a wildcard over an address: write the addresses out")]
    WildcardAddress {
        /// The value in the file.
        found: String,
    },
    /// Names that anybody can have.
    #[error(
        "{found:?} covers everything below a public suffix, where anybody can have a name: name the hosts"
    )]
    WildcardSuffix {
        /// The value in the file.
        found: String,
    },
    /// Not a method that a rule can name.
    #[error(
        "the method {found:?} is none of {}, in capitals; CONNECT and TRACE never pass",
        METHODS.join(", ")
    )]
    Method {
        /// The value in the file.
        found: String,
    },
    /// A path that could never match, or that can be read in more than one way.
    #[error("the path {found:?} {why}")]
    Path {
        /// The value in the file.
        found: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// What passes unread cannot be held to methods or paths.
    #[error(
        "`tunnel` passes TLS through unread, so that nobody can hold it to methods or paths: leave out one or the other"
    )]
    TunnelNarrowed,
    /// There is no TLS to pass through.
    #[error("`tunnel` passes TLS through, and http:// has none: leave out one or the other")]
    TunnelPlain,
    /// One host and port, two ways.
    #[error(
        "allow[{other}] has the same host and port, to be spoken to in another way (https, http or tunnel): say one"
    )]
    RulesClash {
        /// The earlier rule, from 0.
        other: usize,
    },
    /// Nothing can be put into what passes unread.
    #[error(
        "`tunnel` covers {host}, a host of the secret {secret:?}, which cannot be put into what passes unread: leave out one or the other"
    )]
    TunnelWithSecret {
        /// The secret.
        secret: String,
        /// Its host.
        host: Host,
    },
    /// A secret would go out in the clear.
    #[error(
        "http:// covers {host}, a host of the secret {secret:?}, which goes out over HTTPS only: leave out one or the other"
    )]
    PlainWithSecret {
        /// The secret.
        secret: String,
        /// Its host.
        host: Host,
    },

    /// A secret that is not there.
    #[error("there is no secret {found:?} in [secrets]; there are: {known}")]
    SecretUnknown {
        /// The name in the profile.
        found: String,
        /// Those there are.
        known: String,
    },
    /// A secret that could not be used.
    #[error(
        "the secret {secret:?} is for {endpoint}, which no rule of this profile allows: allow it, or correct the secret's hosts (their port is 443 unless they say one)"
    )]
    SecretUnreachable {
        /// The secret.
        secret: String,
        /// Where it may go.
        endpoint: Endpoint,
    },
    /// Two secrets in one place.
    #[error(
        "the secrets {first:?} and {second:?} both set the header {header} for {endpoint}: use one of them in a profile"
    )]
    HeaderTwice {
        /// The one.
        first: String,
        /// The other.
        second: String,
        /// The header.
        header: String,
        /// Where both go.
        endpoint: Endpoint,
    },
    /// Two stand-ins in one variable.
    #[error(
        "the secrets {first:?} and {second:?} both have the placeholder {variable}: give each its own"
    )]
    PlaceholderTwice {
        /// The one.
        first: String,
        /// The other.
        second: String,
        /// The variable.
        variable: String,
    },
    /// Not one name.
    #[error(
        "the key {found:?} is no host name: it must be one name, without wildcard, address or port"
    )]
    ResolveName {
        /// The key in the file.
        found: String,
    },
    /// Not an address.
    #[error("{found:?} is no address: write one such as 10.1.2.3 or fd00::1")]
    ResolveAddress {
        /// The value in the file.
        found: String,
    },
    /// Not a range.
    #[error("{found:?} is no range of addresses: write one such as 10.1.0.0/16 or fd00:1::/32")]
    Range {
        /// The value in the file.
        found: String,
    },
    /// A range that does not say what it means.
    #[error("{found:?} has bits behind its prefix: write {meant}, or a longer prefix")]
    RangeBits {
        /// The value in the file.
        found: String,
        /// The range without them.
        meant: String,
    },
    /// Wider than any private range.
    #[error(
        "{found:?} is wider than any private range (at least /8, and /7 for IPv6): name the ranges that are meant"
    )]
    RangeWide {
        /// The value in the file.
        found: String,
    },

    /// The certificates cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    CaUnreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: String,
    },
    /// Everybody on the machine could sign for every host.
    #[error("{} can be written by every user of this machine: run `chmod o-w` on it", path.display())]
    CaWorldWritable {
        /// The file.
        path: PathBuf,
    },
    /// Too much.
    #[error("{} is longer than {MAX_CA_BYTES} bytes", path.display())]
    CaTooLarge {
        /// The file.
        path: PathBuf,
    },
    /// No certificate in it.
    #[error("{} has no certificate: it must be PEM, -----BEGIN CERTIFICATE-----", path.display())]
    CaEmpty {
        /// The file.
        path: PathBuf,
    },
    /// Something in it that is no certificate.
    #[error("the certificate {at} in {}, counted from 1, cannot be parsed", path.display())]
    CaBroken {
        /// The file.
        path: PathBuf,
        /// Which one, from 1.
        at: usize,
    },

    /// Nowhere to go.
    #[error(
        "a secret must name the hosts that it may go to, such as hosts = [\"api.example.org\"]"
    )]
    SecretHostless,
    /// A secret for whole domains.
    #[error("{found:?} has a `*`: a secret goes to hosts that are named one by one")]
    SecretWildcard {
        /// The value in the file.
        found: String,
    },
    /// A secret with a scheme.
    #[error("{found:?} has a scheme: write host or host:port; a secret goes out over HTTPS only")]
    SecretScheme {
        /// The value in the file.
        found: String,
    },
    /// None or several sources.
    #[error("there must be exactly one of env, file and command, and there are {found}")]
    Sources {
        /// How many there are.
        found: usize,
    },
    /// Not the name of a variable.
    #[error(
        "{found:?} is no variable: names have letters, digits and `_`, and begin with no digit"
    )]
    SourceVariable {
        /// The value in the file.
        found: String,
    },
    /// A file that depends on the current directory.
    #[error("{} must be an absolute path without `..`", found.display())]
    SourceFile {
        /// The value in the file.
        found: PathBuf,
    },
    /// Not a command.
    #[error(
        "{found:?} must be a list of 1 to {MAX_COMMAND_WORDS} non-empty strings without NUL, and begin with an absolute path or a name without `/`"
    )]
    SourceCommand {
        /// The value in the file.
        found: Vec<String>,
    },
    /// A lifetime of something that has none.
    #[error("a lifetime is for a `command`: leave it out")]
    TtlWithoutCommand,
    /// None or several ways in.
    #[error("there must be exactly one of header, basic and placeholder, and there are {found}")]
    Injections {
        /// How many there are.
        found: usize,
    },
    /// Not a header's name.
    #[error("{found:?} is no name of a header: names have up to 64 letters, digits and `-`")]
    HeaderName {
        /// The value in the file.
        found: String,
    },
    /// A header that belongs to the connection.
    #[error(
        "{found:?} is a header of the connection or of the message's form, which belljar itself sets"
    )]
    HeaderForbidden {
        /// The value in the file.
        found: String,
    },
    /// Not a form of a header's value.
    #[error(
        "{found:?} must have `{{}}` exactly once, at most 256 characters, all of them visible ASCII or a space within"
    )]
    Format {
        /// The value in the file.
        found: String,
    },
    /// A form of no header.
    #[error("a format is for a `header`: leave it out")]
    FormatWithoutHeader,
    /// Not a user's name.
    #[error("{found:?} must have 1 to 256 characters, all of them visible ASCII and none a `:`")]
    User {
        /// The value in the file.
        found: String,
    },
    /// Not a variable.
    #[error(
        "{found:?} is no variable: names have up to 64 letters, digits and `_`, and begin with no digit"
    )]
    Variable {
        /// The value in the file.
        found: String,
    },
    /// A variable that means something already.
    #[error(
        "{found:?} is a variable that belljar sets itself, or that steers the program loader (LD_*, GLIBC_TUNABLES): choose another"
    )]
    VariableReserved {
        /// The value in the file.
        found: String,
    },
}

impl EgressProblem {
    /// This problem of that key.
    pub(in crate::config) fn at(self, key: impl Into<String>) -> Problem {
        Problem::Egress {
            key: key.into(),
            problem: Box::new(self),
        }
    }
}
