//! The only way out for bytes: a proxy for the programs of one run, which decides, dials and records.
//!
//! A [`Relay`] belongs to one run and one profile. The guest carries connections to it over the tether; here each is
//! read as HTTP or SOCKS 5, its target parsed once, decided by the policy, recorded, resolved, and dialled at the very
//! address that was checked. TLS is ended here and begun anew towards the server, so that every request inside is
//! seen, unless a rule says `tunnel`. Nothing here trusts a byte of what comes from either side, nothing goes out
//! that was not recorded first, and a secret never goes back inside.
//!
//! # Theory of operation
//! [`front`] takes a connection from inside and finds out what it wants, over HTTP or [`socks`]; [`tunnel`] passes TLS
//! through after a look at its first message ([`client_hello`]); [`intercept`] ends TLS with a certificate of the run's
//! own [`authority`], and counts the frames of HTTP/2 ([`frames`]); [`exchange`] takes one request, whatever way it came, and [`upstream`] sends it on over what
//! [`dial`] opens. Heads of HTTP/1 are vetted by [`head`] before a server of HTTP reads them, [`meter`] charges every
//! byte outside to the budget, and [`reply`] is what a program is told of a denial.
//! [`ledger`] asks the policy, keeps the budget, counts, and has each decision recorded before it takes effect.
//! [`packages`] is another way out, for installers before a program: a gateway to one registry.
//! [`vault`] holds the run's secrets: puts them into requests and takes them out of answers.

mod authority;
pub mod client_hello;
mod dial;
pub(crate) mod exchange;
#[cfg(test)]
mod fixtures;
mod frames;
mod front;
mod gather;
pub mod head;
mod http;
mod intercept;
mod ledger;
mod meter;
pub(crate) mod packages;
mod prefixed;
mod relay;
mod reply;
mod report;
pub mod socks;
#[cfg(test)]
mod tests;
mod tunnel;
mod upstream;
pub(crate) mod vault;
mod watched;

pub use ledger::{Allowed, Decided, Denied, Failed, MAX_REPORTED, Report, Unrecorded, Witness};
pub use packages::{Gateway, Packages, Registry, RegistryError};
pub use relay::Relay;
pub use vault::{SecretError, Vault};
