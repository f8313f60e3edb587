//! Having an interpreter wait for its program.
//!
//! Only a head start: whatever becomes of it, the next run works. It must never hold a caller for longer than
//! [`WARM_DEADLINE`], nor take the guest's word for more than one of two answers.

use std::time::Duration;

use belljar_wire::message::{FromWarm, Request, WarmSpec};
use tokio::time::timeout;

use super::{Tether, TetherError, received};

/// How long an interpreter may take until it waits. Stops a hook that never says that it is ready, of a hostile image
/// or on a machine without time, from holding the caller; the guest ends it then.
pub const WARM_DEADLINE: Duration = Duration::from_secs(30);

impl Tether {
    /// Has an interpreter started that waits for the next run, and returns once it waits or will not. A run that is
    /// asked for meanwhile, or this future's being dropped, ends it.
    ///
    /// # Errors
    /// [`TetherError::TooLarge`], [`TetherError::TooManyRequests`], [`TetherError::Lost`] or
    /// [`TetherError::Violation`].
    pub async fn warm_up(&self, spec: WarmSpec) -> Result<FromWarm, TetherError> {
        let asking = async {
            let mut exchange = self.link.ask(&Request::Warm(spec)).await?;
            let answer = exchange.frame().await?.message().map_err(received)?;
            exchange.end().await?;
            Ok(answer)
        };
        match timeout(WARM_DEADLINE, asking).await {
            Ok(answered) => answered.map_err(|error| self.link.judge(error)),
            // Slow is no breach: the dropped stream tells the guest to end it.
            Err(_) => Ok(FromWarm::Failed),
        }
    }
}
