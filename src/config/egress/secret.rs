//! One secret: where it comes from, where it may go, how it gets there. Its value is nowhere here.

use std::{
    path::{Component, Path},
    time::Duration,
};

use super::{
    EgressProblem, Injection, MAX_COMMAND_WORDS, MAX_SECRET_HOSTS, SecretSource, SecretSpec,
    is_reserved_variable,
    raw::{RawInjection, RawSecret, RawSource},
};
use crate::{
    config::{Problem, check::whole},
    images::is_variable,
    types::Endpoint,
};

/// How long what a command prints can be used by default, in seconds.
const DEFAULT_TTL_SECONDS: u64 = 600;
/// The longest that it can be used, in seconds: a day, like the longest run.
const HIGHEST_TTL_SECONDS: u64 = 86_400;
/// The longest name of a secret, a header or a variable, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// The longest form of a header's value, and the longest user, in bytes: both go into every request.
const MAX_VALUE_BYTES: usize = 256;
/// What stands for the secret in a header's form.
const SECRET: &str = "{}";
/// Headers that say how a message is framed, encoded or passed on: one set wrongly lets a request be read in two ways, or
/// an answer come back in a form that cannot be searched. `proxy-…` are refused besides.
const FORBIDDEN_HEADERS: [&str; 13] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

impl SecretSpec {
    /// Checks the section `[secrets.name]`.
    pub(super) fn checked(name: String, raw: RawSecret) -> Result<Self, Problem> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(plain) {
            return Err(EgressProblem::SecretName { found: name }.at("secrets"));
        }
        let key = format!("secrets.{name}");
        Ok(Self {
            from: source(raw.from, &format!("{key}.from"))?,
            hosts: hosts(&raw.hosts, &format!("{key}.hosts"))?,
            inject: injection(raw.inject, &format!("{key}.inject"))?,
            name,
        })
    }

    /// The secret as it is written.
    pub(super) fn raw(&self) -> RawSecret {
        RawSecret {
            from: match &self.from {
                SecretSource::Env(variable) => RawSource {
                    env: Some(variable.clone()),
                    ..RawSource::default()
                },
                SecretSource::File(path) => RawSource {
                    file: Some(path.clone()),
                    ..RawSource::default()
                },
                SecretSource::Command { argv, ttl } => RawSource {
                    command: Some(argv.clone()),
                    ttl_seconds: Some(ttl.as_secs()),
                    ..RawSource::default()
                },
            },
            hosts: self.hosts.iter().map(Endpoint::to_string).collect(),
            inject: match &self.inject {
                Injection::Header { name, format } => RawInjection {
                    header: Some(name.clone()),
                    format: Some(format.clone()),
                    ..RawInjection::default()
                },
                Injection::Basic { user } => RawInjection {
                    basic: Some(user.clone()),
                    ..RawInjection::default()
                },
                Injection::Placeholder { variable } => RawInjection {
                    placeholder: Some(variable.clone()),
                    ..RawInjection::default()
                },
            },
        }
    }
}

impl Injection {
    /// The header that it sets whatever the program sends; none for a stand-in.
    pub(super) fn header(&self) -> Option<&str> {
        match self {
            Self::Header { name, .. } => Some(name),
            Self::Basic { .. } => Some("authorization"),
            Self::Placeholder { .. } => None,
        }
    }
}

fn source(raw: RawSource, key: &str) -> Result<SecretSource, Problem> {
    let ttl_key = || format!("{key}.ttl_seconds");
    if raw.command.is_none() && raw.ttl_seconds.is_some() {
        return Err(EgressProblem::TtlWithoutCommand.at(ttl_key()));
    }
    match (raw.env, raw.file, raw.command) {
        (Some(found), None, None) if is_variable(&found) => Ok(SecretSource::Env(found)),
        (Some(found), None, None) => {
            Err(EgressProblem::SourceVariable { found }.at(format!("{key}.env")))
        }
        (None, Some(found), None) if is_absolute(&found) => Ok(SecretSource::File(found)),
        (None, Some(found), None) => {
            Err(EgressProblem::SourceFile { found }.at(format!("{key}.file")))
        }
        (None, None, Some(found)) if is_command(&found) => Ok(SecretSource::Command {
            argv: found,
            ttl: Duration::from_secs(whole(
                ttl_key(),
                raw.ttl_seconds,
                DEFAULT_TTL_SECONDS,
                1,
                HIGHEST_TTL_SECONDS,
            )?),
        }),
        (None, None, Some(found)) => {
            Err(EgressProblem::SourceCommand { found }.at(format!("{key}.command")))
        }
        (env, file, command) => {
            let found = usize::from(env.is_some())
                + usize::from(file.is_some())
                + usize::from(command.is_some());
            Err(EgressProblem::Sources { found }.at(key))
        }
    }
}

/// Whether a path means the same whatever the current directory is, and is what it says.
fn is_absolute(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
}

/// Whether it is a command whose program does not depend on the current directory: a plain name is looked up in `PATH`.
fn is_command(argv: &[String]) -> bool {
    let word = |word: &String| !word.is_empty() && !word.contains('\0');
    argv.first().is_some_and(|program| {
        let program = Path::new(program);
        is_absolute(program) || program.file_name() == Some(program.as_os_str())
    }) && argv.len() <= MAX_COMMAND_WORDS
        && argv.iter().all(word)
}

fn hosts(found: &[String], key: &str) -> Result<Vec<Endpoint>, Problem> {
    match found.len() {
        0 => return Err(EgressProblem::SecretHostless.at(key)),
        count if count > MAX_SECRET_HOSTS => {
            return Err(EgressProblem::TooMany {
                found: count,
                most: MAX_SECRET_HOSTS,
            }
            .at(key));
        }
        _ => {}
    }
    let mut hosts = Vec::new();
    for (at, text) in found.iter().enumerate() {
        let endpoint = endpoint(text).map_err(|problem| problem.at(format!("{key}[{at}]")))?;
        if hosts.contains(&endpoint) {
            return Err(EgressProblem::Twice {
                found: text.clone(),
            }
            .at(key));
        }
        hosts.push(endpoint);
    }
    Ok(hosts)
}

fn endpoint(text: &str) -> Result<Endpoint, EgressProblem> {
    let found = || text.to_owned();
    if text.contains("://") {
        return Err(EgressProblem::SecretScheme { found: found() });
    }
    if text.contains('*') {
        return Err(EgressProblem::SecretWildcard { found: found() });
    }
    Endpoint::parse(text, Some(443)).map_err(|error| EgressProblem::Host {
        found: found(),
        error,
    })
}

fn injection(raw: RawInjection, key: &str) -> Result<Injection, Problem> {
    let format_key = format!("{key}.format");
    if raw.header.is_none() && raw.format.is_some() {
        return Err(EgressProblem::FormatWithoutHeader.at(format_key));
    }
    match (raw.header, raw.basic, raw.placeholder) {
        (Some(name), None, None) => Ok(Injection::Header {
            name: header(name).map_err(|problem| problem.at(format!("{key}.header")))?,
            format: format(raw.format).map_err(|problem| problem.at(format_key))?,
        }),
        (None, Some(user), None) if is_user(&user) => Ok(Injection::Basic { user }),
        (None, Some(found), None) => Err(EgressProblem::User { found }.at(format!("{key}.basic"))),
        (None, None, Some(found)) => {
            let variable =
                variable(found).map_err(|problem| problem.at(format!("{key}.placeholder")))?;
            Ok(Injection::Placeholder { variable })
        }
        (header, basic, placeholder) => {
            let found = usize::from(header.is_some())
                + usize::from(basic.is_some())
                + usize::from(placeholder.is_some());
            Err(EgressProblem::Injections { found }.at(key))
        }
    }
}

/// A header's name in lower case. Of the characters that a token may have, those are taken that headers have: some servers
/// take `_` for `-`.
fn header(found: String) -> Result<String, EgressProblem> {
    let name = found.to_ascii_lowercase();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(plain) {
        return Err(EgressProblem::HeaderName { found });
    }
    if FORBIDDEN_HEADERS.contains(&name.as_str()) || name.starts_with("proxy-") {
        return Err(EgressProblem::HeaderForbidden { found });
    }
    Ok(name)
}

fn format(found: Option<String>) -> Result<String, EgressProblem> {
    let found = found.unwrap_or_else(|| SECRET.to_owned());
    let visible = |b: u8| b.is_ascii_graphic() || b == b' ';
    let right = found.matches(SECRET).count() == 1
        && found.len() <= MAX_VALUE_BYTES
        && found.bytes().all(visible)
        && found.trim_matches(' ') == found;
    if right {
        Ok(found)
    } else {
        Err(EgressProblem::Format { found })
    }
}

/// Whether it can be the user of Basic authentication, which ends at the first `:`.
fn is_user(user: &str) -> bool {
    let plain = |b: u8| b.is_ascii_graphic() && b != b':';
    !user.is_empty() && user.len() <= MAX_VALUE_BYTES && user.bytes().all(plain)
}

fn variable(found: String) -> Result<String, EgressProblem> {
    if !is_variable(&found) || found.len() > MAX_NAME_BYTES {
        return Err(EgressProblem::Variable { found });
    }
    if is_reserved_variable(&found) {
        return Err(EgressProblem::VariableReserved { found });
    }
    Ok(found)
}
