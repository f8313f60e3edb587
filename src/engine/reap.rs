//! Removes what servers that have ended left on the daemon.
//!
//! A label alone proves nothing: an image can forge it. A container is removed only where its name says
//! an instance, its label says the same one, and that instance's lock file, in our own state directory, is there and
//! free. An instance without a file here may belong to a server with another state directory, and is left alone.

use std::sync::Arc;

use super::{
    Inner, container,
    daemon::{Daemon, DaemonError, Listed},
    deadline,
    error::EngineError,
    spec::{self, LABEL_INSTANCE},
};
use crate::types::InstanceId;

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Servers that had ended.
    pub instances: usize,
    /// Containers of theirs that were removed.
    pub containers: usize,
    /// Containers of theirs that could not be removed; the next sweep tries again.
    pub failed: usize,
}

impl Inner {
    /// Sweeps after every ended server of our state directory that used this daemon.
    pub(super) async fn reap(&self) -> Result<Reaped, EngineError> {
        let host = self.host().await?;
        let heritage = self.instance.take_over(&host.info.daemon_id)?;
        let mut reaped = Reaped {
            instances: heritage.empty,
            ..Reaped::default()
        };
        if heritage.charges.is_empty() {
            return Ok(reaped);
        }
        // A daemon that cannot say which volumes it has can still remove containers.
        let seeded = self.seeded().await;
        for (charge, known_for) in heritage.charges {
            let instance = &charge.instance;
            let (removed, failed) = self.sweep(instance).await?;
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
            if failed == 0 && cleared.is_ok() {
                reaped.instances += 1;
                // A container that the daemon was making when the server ended may appear only now.
                if known_for >= deadline::SETTLED {
                    self.instance.done_with(&charge);
                }
            }
        }
        Ok(reaped)
    }

    /// Removes every container of one instance. Says how many went, and how many did not.
    pub(super) async fn sweep(&self, instance: &InstanceId) -> Result<(usize, usize), DaemonError> {
        let all = containers_of(self.daemon.as_ref(), instance).await?;
        let removals: Vec<_> = all
            .into_iter()
            .map(|listed| {
                let daemon: Arc<dyn Daemon> = Arc::clone(&self.daemon);
                tokio::spawn(async move { container::remove(daemon.as_ref(), &listed.id).await })
            })
            .collect();
        let (mut removed, mut failed) = (0, 0);
        for removal in removals {
            match removal.await {
                Ok(Ok(())) => removed += 1,
                Ok(Err(error)) => {
                    tracing::warn!(%instance, %error, "a container could not be removed");
                    failed += 1;
                }
                Err(error) => {
                    tracing::warn!(%instance, %error, "the removal of a container failed");
                    failed += 1;
                }
            }
        }
        Ok((removed, failed))
    }
}

/// Every container of one instance, in whatever state.
pub(super) async fn containers_of(
    daemon: &dyn Daemon,
    instance: &InstanceId,
) -> Result<Vec<Listed>, DaemonError> {
    let mut all = daemon
        .list(&[format!("{LABEL_INSTANCE}={instance}")])
        .await?;
    all.retain(|listed| belongs(listed, instance));
    Ok(all)
}

/// Whether name and label agree that the container is this instance's.
fn belongs(listed: &Listed, instance: &InstanceId) -> bool {
    spec::instance_of(&listed.name).as_ref() == Some(instance)
        && listed.labels.get(LABEL_INSTANCE).map(String::as_str) == Some(instance.as_str())
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
        assert!(belongs(&listed(format!("belljar-{ours}-7"), &ours), &ours));
        for (name, label) in [
            (format!("belljar-{other}-7"), &ours),
            (format!("belljar-{ours}-7"), &other),
            ("postgres".to_owned(), &ours),
            (format!("belljar-{ours}-"), &ours),
            (format!("belljar-{ours}-7x"), &ours),
            (format!("belljar-{ours}"), &ours),
        ] {
            assert!(!belongs(&listed(name.clone(), label), &ours), "{name}");
        }
    }
}
