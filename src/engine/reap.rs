//! Removes what servers that have ended left on the daemon.
//!
//! A label alone proves nothing: an image can forge it. A container is removed only where its name says
//! an instance, its label says the same one, and that instance has ended: its lock file, in our own state directory, was
//! found free. An instance that never had one here may belong to a server with another state directory, and is left
//! alone.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::StreamExt as _;

use super::{
    Inner, container,
    daemon::{Daemon, DaemonError, Listed},
    deadline,
    error::EngineError,
    instance::Charge,
    spec::{self, LABEL_INSTANCE},
};
use crate::types::InstanceId;

/// Waits before each sweep. What a daemon was making when its server was killed appears a moment after the first one, or as
/// late as the deadline for it allows.
const WAITS: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_secs(2),
    Duration::from_secs(6),
    Duration::from_secs(14),
];
/// And before each of those that follow, for as long as there may be something.
const LAST_WAIT: Duration = Duration::from_secs(100);

/// Containers that are removed at a time. Stops what many servers left, as after a loss of power, from taking all the
/// connections that this one may open.
const MAX_REMOVALS: usize = 16;

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Servers that had ended.
    pub instances: usize,
    /// Containers of theirs that were removed.
    pub containers: usize,
    /// Containers of theirs that could not be removed; the next sweep tries again.
    pub failed: usize,
    /// Servers of which something may be left, or may follow: to be swept after again.
    pub pending: usize,
}

impl Inner {
    /// Sweeps now, a few times more, and then for as long as something may be left or follow: nobody else looks for what was
    /// taken over, and a daemon that does not answer may have something.
    pub(super) async fn keep_reaped(self: &Arc<Self>) {
        for wait in WAITS.into_iter().chain(std::iter::repeat(LAST_WAIT)) {
            tokio::time::sleep(wait).await;
            match self.reap().await {
                Ok(reaped) if wait == LAST_WAIT && reaped.pending == 0 => return,
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(%error, "what ended servers left could not be looked for");
                }
            }
        }
    }

    /// Sweeps after every ended server of our state directory that used this daemon.
    pub(super) async fn reap(self: &Arc<Self>) -> Result<Reaped, EngineError> {
        let reaped = self.sweep_the_dead().await;
        if reaped.is_err() {
            // Whatever it was to make while it did not answer may come now.
            self.instance.count_anew(None);
        }
        reaped
    }

    async fn sweep_the_dead(self: &Arc<Self>) -> Result<Reaped, EngineError> {
        // One that no sandbox can be on is left alone.
        self.host().await?;
        // Asked anew each time: what is not on another daemon is not gone.
        let daemon = self.daemon.info().await?.daemon_id;
        let charges = self.take_over(&daemon).await?;
        let mut reaped = Reaped {
            pending: charges.len(),
            ..Reaped::default()
        };
        if charges.is_empty() {
            return Ok(reaped);
        }
        let instances: Vec<_> = charges
            .iter()
            .map(|(charge, _)| charge.instance.clone())
            .collect();
        let swept = self.sweep(&instances).await?;
        // A daemon that cannot say which volumes it has can still remove containers.
        let seeded = self.seeded().await;
        let mut done = Vec::new();
        for (charge, known_for) in charges {
            let instance = &charge.instance;
            let Swept { removed, failed } = swept.get(instance).copied().unwrap_or_default();
            reaped.containers += removed;
            reaped.failed += failed;
            // After its containers: one of them may be the one that fills the volume.
            let cleared = match &seeded {
                Ok(volumes) => self.clear_seeding(instance, volumes).await,
                Err(error) => Err(error.clone()),
            };
            if let Err(error) = &cleared {
                tracing::warn!(%instance, %error, "what was left of filling a volume could not be removed");
            }
            let works = failed == 0 && cleared.is_ok();
            reaped.instances += usize::from(works);
            if removed > 0 || !works {
                self.instance.count_anew(Some(&charge));
            } else if known_for >= deadline::SETTLED {
                // A container that the daemon was making when the server ended would have appeared.
                done.push(charge);
            }
        }
        if !done.is_empty() && self.is_still(&daemon).await {
            for charge in done {
                self.instance.done_with(&charge);
                reaped.pending -= 1;
            }
        }
        Ok(reaped)
    }

    async fn take_over(
        self: &Arc<Self>,
        daemon: &str,
    ) -> Result<Vec<(Charge, Duration)>, EngineError> {
        let (inner, daemon) = (Arc::clone(self), daemon.to_owned());
        let taken = tokio::task::spawn_blocking(move || inner.instance.take_over(&daemon));
        let taken = taken.await.map_err(|error| {
            tracing::error!(%error, "a sweep was interrupted");
            EngineError::Fault
        })?;
        Ok(taken?)
    }

    /// Whether it is this daemon that answers.
    async fn is_still(&self, daemon: &str) -> bool {
        let info = self.daemon.info().await;
        info.is_ok_and(|info| info.daemon_id == daemon)
    }

    /// Removes every container of these instances. Says of each that had some how many went, and how many did not.
    pub(super) async fn sweep(
        &self,
        instances: &[InstanceId],
    ) -> Result<BTreeMap<InstanceId, Swept>, DaemonError> {
        let all = containers_of(self.daemon.as_ref(), instances).await?;
        let removals = all.into_iter().map(|(instance, listed)| {
            let daemon: Arc<dyn Daemon> = Arc::clone(&self.daemon);
            async move {
                let removed = container::remove(daemon.as_ref(), &listed.id).await;
                (instance, removed)
            }
        });
        let mut removals = futures_util::stream::iter(removals).buffer_unordered(MAX_REMOVALS);
        let mut swept = BTreeMap::<_, Swept>::new();
        while let Some((instance, removed)) = removals.next().await {
            let of = swept.entry(instance.clone()).or_default();
            match removed {
                Ok(()) => of.removed += 1,
                Err(error) => {
                    tracing::warn!(%instance, %error, "a container could not be removed");
                    of.failed += 1;
                }
            }
        }
        Ok(swept)
    }
}

/// What became of the containers of one instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Swept {
    pub(super) removed: usize,
    pub(super) failed: usize,
}

/// Every container of these instances, in whatever state.
pub(super) async fn containers_of(
    daemon: &dyn Daemon,
    instances: &[InstanceId],
) -> Result<Vec<(InstanceId, Listed)>, DaemonError> {
    let label = match instances {
        [one] => format!("{LABEL_INSTANCE}={one}"),
        // One question for all of them.
        _ => LABEL_INSTANCE.to_owned(),
    };
    let all = daemon.list(&[label]).await?.into_iter();
    let whose = all.filter_map(|listed| Some((belongs_to(&listed)?, listed)));
    Ok(whose
        .filter(|(instance, _)| instances.contains(instance))
        .collect())
}

/// The instance whose container it is, if name and label agree.
fn belongs_to(listed: &Listed) -> Option<InstanceId> {
    let instance = spec::instance_of(&listed.name)?;
    let label = listed.labels.get(LABEL_INSTANCE)?;
    (label == instance.as_str()).then_some(instance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_belongs_only_where_name_and_label_agree() {
        let ours = InstanceId::random();
        let other = InstanceId::random();
        let listed = |name: String, label: &InstanceId| Listed {
            id: String::new(),
            name,
            labels: [(LABEL_INSTANCE.to_owned(), label.to_string())].into(),
        };
        let right = listed(format!("belljar-{ours}-7"), &ours);
        assert_eq!(belongs_to(&right), Some(ours.clone()));
        for (name, label) in [
            (format!("belljar-{other}-7"), &ours),
            (format!("belljar-{ours}-7"), &other),
            ("postgres".to_owned(), &ours),
            (format!("belljar-{ours}-"), &ours),
            (format!("belljar-{ours}-7x"), &ours),
            (format!("belljar-{ours}"), &ours),
        ] {
            assert_eq!(belongs_to(&listed(name.clone(), label)), None, "{name}");
        }
    }
}
