//! Something that is looked up once, for everybody who needs it.
//!
//! Whoever comes while a look-up is under way waits for it and gets what it came to, also where it failed: a daemon that
//! does not answer must not make each of them wait for a deadline of its own, one after the other.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::{daemon::DaemonError, error::EngineError};

/// What is known, and the turn to look it up.
#[derive(Debug)]
pub(super) struct Shared<T> {
    known: Mutex<Option<T>>,
    /// How and when the last look-up failed.
    turn: tokio::sync::Mutex<Option<(Instant, DaemonError)>>,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self {
            known: Mutex::new(None),
            turn: tokio::sync::Mutex::new(None),
        }
    }
}

/// An error that may be the daemon's.
pub(super) trait MaybeDaemon: From<DaemonError> {
    fn of_daemon(&self) -> Option<&DaemonError>;
}

impl MaybeDaemon for DaemonError {
    fn of_daemon(&self) -> Option<&DaemonError> {
        Some(self)
    }
}

impl MaybeDaemon for EngineError {
    fn of_daemon(&self) -> Option<&DaemonError> {
        match self {
            Self::Daemon(error) => Some(error),
            _ => None,
        }
    }
}

impl<T: Clone> Shared<T> {
    fn known(&self) -> MutexGuard<'_, Option<T>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known without asking anybody.
    pub(super) fn peek(&self) -> Option<T> {
        self.known().clone()
    }

    /// What is known, or what `look` comes to.
    pub(super) async fn get<E: MaybeDaemon>(
        &self,
        look: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        if let Some(known) = self.peek() {
            return Ok(known);
        }
        let came = Instant::now();
        let mut failed = self.turn.lock().await;
        if let Some(known) = self.peek() {
            return Ok(known);
        }
        if let Some((at, error)) = &*failed
            && *at > came
        {
            return Err(error.clone().into());
        }
        match look.await {
            Ok(found) => {
                *failed = None;
                *self.known() = Some(found.clone());
                Ok(found)
            }
            Err(error) => {
                *failed = error
                    .of_daemon()
                    .map(|error| (Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// The next one looks anew. Never waits.
    pub(super) fn forget(&self) {
        *self.known() = None;
    }

    /// Gives up `value` if it is still what is known, and keeps everybody from looking before `discard` is through.
    pub(super) async fn give_up<E>(
        &self,
        value: &T,
        discard: impl Future<Output = Result<(), E>>,
    ) -> Result<(), E>
    where
        T: PartialEq,
    {
        let _turn = self.turn.lock().await;
        let ours = {
            let mut known = self.known();
            known.take_if(|known| *known == *value).is_some()
        };
        if ours { discard.await } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn silent() -> DaemonError {
        DaemonError::Timeout {
            call: "test",
            seconds: 20,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_for_a_look_up_are_told_how_it_failed_and_the_next_one_looks_anew() {
        let shared = Shared::<u32>::default();
        let began = Instant::now();
        let slow = || async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            Err::<u32, _>(silent())
        };
        let (first, second, third) =
            tokio::join!(shared.get(slow()), shared.get(slow()), shared.get(slow()));
        assert_eq!(
            [first, second, third],
            [Err(silent()), Err(silent()), Err(silent())]
        );
        assert_eq!(began.elapsed(), Duration::from_secs(20), "one look for all");
        assert_eq!(shared.get(async { Ok::<_, DaemonError>(7) }).await, Ok(7));
        assert_eq!(shared.get(slow()).await, Ok(7));
        shared.forget();
        assert_eq!(shared.get(slow()).await, Err(silent()));
    }

    #[tokio::test]
    async fn only_what_is_known_is_given_up() {
        let shared = Shared::default();
        shared.get(async { Ok::<_, DaemonError>(1) }).await.unwrap();
        let never = async { Err(silent()) };
        assert_eq!(shared.give_up(&2, never).await, Ok(()));
        assert_eq!(shared.peek(), Some(1));
        assert_eq!(
            shared.give_up(&1, async { Err(silent()) }).await,
            Err(silent())
        );
        assert_eq!(shared.peek(), None);
    }
}
