//! How much a sandbox may use. There is no "unlimited": every limit has a least, a default and a
//! ceiling, and a request outside of them is refused with the range rather than clamped in silence.

use std::{fmt, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

/// The shortest time a run may be given, in seconds.
pub const MIN_TIMEOUT_SECONDS: f64 = 0.1;
/// The longest ceiling an operator may set, in seconds: a day. Past it a run is a service.
pub const MAX_TIMEOUT_SECONDS: f64 = 86_400.0;

/// Processors, in thousandths, so that equal limits compare equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cpus(u32);

impl Cpus {
    /// From thousandths of a processor.
    #[must_use]
    pub const fn from_millis(millis: u32) -> Self {
        Self(millis)
    }

    /// From a number of processors; `None` unless it is finite and fits.
    #[must_use]
    pub fn new(cpus: f64) -> Option<Self> {
        let millis = (cpus * 1000.0).round();
        if !(0.0..=f64::from(u32::MAX)).contains(&millis) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked just above"
        )]
        Some(Self(millis as u32))
    }

    /// Thousandths of a processor.
    #[must_use]
    pub const fn millis(self) -> u32 {
        self.0
    }

    /// As a number of processors.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

/// The wall time that a run may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime(Duration);

impl WallTime {
    /// Parses seconds, which must lie between [`MIN_TIMEOUT_SECONDS`] and the operator's ceiling.
    pub fn parse(seconds: f64, ceiling: WallTime) -> Result<Self, LimitError> {
        let most = ceiling.0.as_secs_f64();
        if seconds.is_finite() && (MIN_TIMEOUT_SECONDS..=most).contains(&seconds) {
            Ok(Self(Duration::from_secs_f64(seconds)))
        } else {
            Err(LimitError {
                field: LimitField::TimeoutSeconds,
                least: MIN_TIMEOUT_SECONDS,
                most,
            })
        }
    }

    /// A wall time that the program itself fixes: for defaults and ceilings.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// As a duration.
    #[must_use]
    pub const fn duration(self) -> Duration {
        self.0
    }
}

/// Which limit an error speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitField {
    /// `limits.memory_mib`
    MemoryMib,
    /// `limits.cpus`
    Cpus,
    /// `limits.pids`
    Pids,
    /// `limits.workspace_mib`
    WorkspaceMib,
    /// `limits.output_kib`
    OutputKib,
    /// `timeout_seconds`
    TimeoutSeconds,
    /// `ttl_seconds`
    TtlSeconds,
}

impl fmt::Display for LimitField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MemoryMib => "limits.memory_mib",
            Self::Cpus => "limits.cpus",
            Self::Pids => "limits.pids",
            Self::WorkspaceMib => "limits.workspace_mib",
            Self::OutputKib => "limits.output_kib",
            Self::TimeoutSeconds => "timeout_seconds",
            Self::TtlSeconds => "ttl_seconds",
        })
    }
}

/// A limit outside its range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{field} must lie between {least} and {most}")]
pub struct LimitError {
    /// The field as the caller wrote it.
    pub field: LimitField,
    /// The least value.
    pub least: f64,
    /// The operator's ceiling.
    pub most: f64,
}

/// The limits as a caller asks for them: each may be absent, which means the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsRequest {
    /// Memory in MiB, at least 64. Default 512. What files leave free of the workspace is usable besides.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(with = "Option<u32>")]
    pub memory_mib: Option<u32>,
    /// Processors, at least 0.1. Default 1.
    pub cpus: Option<f64>,
    /// Processes and threads, at least 16. Default 128.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(with = "Option<u32>")]
    pub pids: Option<u32>,
    /// Size of /workspace in MiB, at least 1. Default 256.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(with = "Option<u32>")]
    pub workspace_mib: Option<u32>,
    /// Output that ends the run once exceeded, both streams together, in KiB, at least 1. Default 16384.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(with = "Option<u32>")]
    pub output_kib: Option<u32>,
}

/// A whole number of any size, for what takes it to the nearest that fits: it is out of every range there, so that
/// the caller is told the range rather than what a `u32` is.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    match Option::<f64>::deserialize(deserializer)? {
        Some(number) if number.fract() != 0.0 => Err(D::Error::custom(format_args!(
            "{number} is not a whole number"
        ))),
        number => Ok(number),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and has no fraction"
)]
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    Ok(number(deserializer)?.map(|number| number as u32))
}

/// Reads a whole number of seconds of any size, taken to the nearest that fits.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and has no fraction"
)]
pub fn whole_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(number(deserializer)?.map(|number| number as u64))
}

/// Limits within their ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Memory for the program in MiB.
    pub memory_mib: u32,
    /// Processors.
    pub cpus: Cpus,
    /// Processes and threads.
    pub pids: u32,
    /// Size of the workspace in MiB.
    pub workspace_mib: u32,
    /// Output of both streams together in KiB, after which the run is ended.
    pub output_kib: u32,
}

impl Limits {
    /// The least of each: below, an interpreter does not even start.
    pub const LEAST: Self = Self {
        memory_mib: 64,
        cpus: Cpus::from_millis(100),
        pids: 16,
        workspace_mib: 1,
        output_kib: 1,
    };
    /// What a caller gets who asks for nothing.
    pub const DEFAULT: Self = Self {
        memory_mib: 512,
        cpus: Cpus::from_millis(1000),
        pids: 128,
        workspace_mib: 256,
        output_kib: 16_384,
    };
    /// The ceilings unless the operator sets others; processors are the machine's.
    pub const CEILING: Self = Self {
        memory_mib: 4096,
        cpus: Cpus::from_millis(u32::MAX),
        pids: 1024,
        workspace_mib: 2048,
        output_kib: 262_144,
    };

    /// Fills the request's gaps from `default` and checks each value against [`Self::LEAST`] and `ceiling`.
    /// A default above the ceiling is lowered to it: the operator's ceiling wins.
    pub fn within(
        request: &LimitsRequest,
        default: &Self,
        ceiling: &Self,
    ) -> Result<Self, LimitError> {
        let pick = |field, asked: Option<u32>, default: u32, least: u32, most: u32| match asked {
            None => Ok(default.clamp(least, most.max(least))),
            Some(value) if (least..=most).contains(&value) => Ok(value),
            Some(_) => Err(LimitError {
                field,
                least: f64::from(least),
                most: f64::from(most),
            }),
        };
        let least = &Self::LEAST;
        let cpus = match request.cpus {
            None => default.cpus.clamp(least.cpus, ceiling.cpus.max(least.cpus)),
            Some(value) => Cpus::new(value)
                .filter(|cpus| (least.cpus..=ceiling.cpus).contains(cpus))
                .ok_or(LimitError {
                    field: LimitField::Cpus,
                    least: least.cpus.as_f64(),
                    most: ceiling.cpus.as_f64(),
                })?,
        };
        Ok(Self {
            memory_mib: pick(
                LimitField::MemoryMib,
                request.memory_mib,
                default.memory_mib,
                least.memory_mib,
                ceiling.memory_mib,
            )?,
            cpus,
            pids: pick(
                LimitField::Pids,
                request.pids,
                default.pids,
                least.pids,
                ceiling.pids,
            )?,
            workspace_mib: pick(
                LimitField::WorkspaceMib,
                request.workspace_mib,
                default.workspace_mib,
                least.workspace_mib,
                ceiling.workspace_mib,
            )?,
            output_kib: pick(
                LimitField::OutputKib,
                request.output_kib,
                default.output_kib,
                least.output_kib,
                ceiling.output_kib,
            )?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_filled_and_the_range_is_named() {
        let within = |r| Limits::within(&r, &Limits::DEFAULT, &Limits::CEILING);
        assert_eq!(within(LimitsRequest::default()), Ok(Limits::DEFAULT));
        let error = within(LimitsRequest {
            memory_mib: Some(1),
            ..Default::default()
        })
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "limits.memory_mib must lie between 64 and 4096"
        );
        for cpus in [0.0, 0.05, -1.0, f64::NAN, f64::INFINITY] {
            assert!(
                within(LimitsRequest {
                    cpus: Some(cpus),
                    ..Default::default()
                })
                .is_err(),
                "{cpus}"
            );
        }
        assert_eq!(
            within(LimitsRequest {
                cpus: Some(0.5),
                ..Default::default()
            })
            .unwrap()
            .cpus
            .millis(),
            500
        );
    }

    #[test]
    fn a_number_of_any_size_is_told_the_range() {
        for bad in ["-1", "63", "5000000000", "1e300", "-1e300"] {
            let request: LimitsRequest =
                serde_json::from_str(&format!("{{\"memory_mib\": {bad}}}")).unwrap();
            let error = Limits::within(&request, &Limits::DEFAULT, &Limits::CEILING).unwrap_err();
            assert_eq!(
                error.to_string(),
                "limits.memory_mib must lie between 64 and 4096",
                "{bad}"
            );
        }
        let request: LimitsRequest =
            serde_json::from_str(r#"{"memory_mib": 128.0, "pids": null}"#).unwrap();
        assert_eq!((request.memory_mib, request.pids), (Some(128), None));
        assert!(serde_json::from_str::<LimitsRequest>(r#"{"pids": 16.5}"#).is_err());
    }

    #[test]
    fn a_default_above_the_ceiling_is_lowered() {
        let ceiling = Limits {
            memory_mib: 128,
            ..Limits::CEILING
        };
        let limits = Limits::within(&LimitsRequest::default(), &Limits::DEFAULT, &ceiling).unwrap();
        assert_eq!(limits.memory_mib, 128);
    }

    #[test]
    fn a_timeout_outside_its_range_is_refused() {
        let ceiling = WallTime::from_secs(300);
        for bad in [0.0, -1.0, 1e9, f64::NAN, 300.1] {
            let error = WallTime::parse(bad, ceiling).unwrap_err();
            assert_eq!(
                error.to_string(),
                "timeout_seconds must lie between 0.1 and 300"
            );
        }
        assert_eq!(
            WallTime::parse(2.5, ceiling).unwrap().duration(),
            Duration::from_millis(2500)
        );
    }
}
