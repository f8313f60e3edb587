//! What this server may have left on the daemon, and its removal while the server lives.
//!
//! A call whose answer is lost may have acted, and a removal fails for as long as the daemon is down. So every
//! container has a name that is registered here before the daemon is asked to make it, and stays so until it is known to
//! be gone. A container of this instance on the daemon whose name nobody holds is nobody's, and is removed. It never
//! touches a container whose name is held, nor one of another instance.
//!
//! Nothing is asked while all is well: a look begins when a name is given up without certainty, and ends when the daemon
//! has said for a while that nothing is left. Volumes and images of a seeding that failed are removed on the way.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    daemon::{Daemon, DaemonError},
    deadline,
    guest_volume::{self, GuestVolume},
    reap,
};
use crate::types::InstanceId;

/// Waits between two looks, the last one again and again. Short at first, since most answers are lost by chance; stops a
/// daemon that is down from being asked without end.
const WAITS: [Duration; 6] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(30),
];

/// Volumes and images that are remembered. Stops a daemon that fails every seeding from growing the server.
const MAX_THINGS: usize = 64;

/// What is to be removed besides containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Thing {
    /// A volume that a guest was, or was to be, filled into. It stays where its pointer names it after all.
    Volume(GuestVolume),
    /// The one-file image of a seeding.
    Image(String),
}

/// What this server may have left. Clones share everything.
#[derive(Clone)]
pub(super) struct Leftovers {
    inner: Arc<Inner>,
}

struct Inner {
    daemon: Arc<dyn Daemon>,
    instance: InstanceId,
    state: Mutex<State>,
    closed: CancellationToken,
}

#[derive(Default)]
struct State {
    /// Names of containers that somebody here makes, has or removes.
    held: HashSet<String>,
    /// With when they were given up.
    things: Vec<(Thing, Instant)>,
    /// Whether something was given up since the last look.
    stirred: bool,
    /// Whether the daemon may still be making what it was asked for.
    late: bool,
    looking: bool,
}

/// The name of a container, from before its making until it is known to be gone.
pub(super) struct Held {
    name: String,
    leftovers: Leftovers,
    /// Whether there is nothing more to do for it here.
    done: AtomicBool,
}

impl Held {
    /// The daemon says that there is no such container.
    pub(super) fn is_gone(&self) {
        self.done.store(true, Ordering::Relaxed);
    }

    /// The container cannot be removed for now: it is nobody's from here on, whoever still has a handle to it.
    pub(super) fn let_go(&self) {
        self.done.store(true, Ordering::Relaxed);
        self.leftovers.inner.state().held.remove(&self.name);
        self.leftovers.look();
    }

    /// The daemon did not say whether it makes the container: it may be there only later.
    pub(super) fn may_follow(&self) {
        let mut state = self.leftovers.inner.state();
        state.late = true;
        // A look that is about to end would say otherwise.
        state.stirred = true;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.leftovers.inner.state().held.remove(&self.name);
        if !self.done.load(Ordering::Relaxed) {
            self.leftovers.look();
        }
    }
}

/// What a look came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Something,
}

impl Leftovers {
    pub(super) fn new(daemon: Arc<dyn Daemon>, instance: InstanceId) -> Self {
        Self {
            inner: Arc::new(Inner {
                daemon,
                instance,
                state: Mutex::default(),
                closed: CancellationToken::new(),
            }),
        }
    }

    /// Registers a name that is about to be made.
    pub(super) fn hold(&self, name: &str) -> Held {
        self.inner.state().held.insert(name.to_owned());
        Held {
            name: name.to_owned(),
            leftovers: self.clone(),
            done: AtomicBool::new(false),
        }
    }

    /// Keeps from being removed what is about to be made anew under the same name.
    pub(super) fn forget(&self, thing: &Thing) {
        self.inner
            .state()
            .things
            .retain(|(known, _)| known != thing);
    }

    /// Has a volume or an image removed as soon as that is possible.
    pub(super) fn owe(&self, thing: Thing) {
        let mut state = self.inner.state();
        if state.things.iter().any(|(known, _)| *known == thing) {
            return;
        }
        if state.things.len() >= MAX_THINGS {
            tracing::warn!(?thing, "too much is left on the daemon, this stays");
            return;
        }
        state.things.push((thing, Instant::now()));
        drop(state);
        self.look();
    }

    /// Whether there may be something left of it, now or later, that nobody waits for.
    pub(super) fn may_follow(&self) -> bool {
        let state = self.inner.state();
        state.late || !state.things.is_empty()
    }

    /// Looks no more: whoever closes the engine sweeps by force.
    pub(super) fn close(&self) {
        self.inner.closed.cancel();
    }

    /// Begins a look, or has the one under way begin anew.
    fn look(&self) {
        let mut state = self.inner.state();
        state.stirred = true;
        let can = !self.inner.closed.is_cancelled();
        if can
            && !state.looking
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            state.looking = true;
            let inner = Arc::clone(&self.inner);
            runtime.spawn(async move {
                tokio::select! {
                    () = inner.look_until_quiet() => {}
                    () = inner.closed.cancelled() => {}
                }
            });
        }
    }
}

impl Inner {
    /// No state is left half-changed by a panic while it is locked.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks until the daemon has said for as long as it may take to make a container that nothing is left.
    async fn look_until_quiet(&self) {
        let mut waits = WAITS.iter();
        let mut quiet: Option<Instant> = None;
        loop {
            let wait = waits.next().unwrap_or(&WAITS[WAITS.len() - 1]);
            tokio::time::sleep(*wait).await;
            if std::mem::take(&mut self.state().stirred) {
                waits = WAITS.iter();
                quiet = None;
            }
            match self.clear().await {
                Ok(Found::Nothing) => {
                    let since = *quiet.get_or_insert_with(Instant::now);
                    let mut state = self.state();
                    if since.elapsed() >= deadline::SETTLED && !state.stirred {
                        state.looking = false;
                        state.late = false;
                        return;
                    }
                }
                Ok(Found::Something) => quiet = None,
                Err(error) => {
                    tracing::debug!(%error, "what may be left on the daemon could not be looked for");
                    quiet = None;
                }
            }
        }
    }

    /// Looks once, and removes what is nobody's.
    async fn clear(&self) -> Result<Found, DaemonError> {
        let mut found = Found::Nothing;
        let own = std::slice::from_ref(&self.instance);
        for (_, listed) in reap::containers_of(self.daemon.as_ref(), own).await? {
            // After the list: what is made from now on is not in it, and what was in the making is held.
            if self.state().held.contains(&listed.name) {
                continue;
            }
            found = Found::Something;
            tracing::warn!(
                container = listed.name,
                "a container that was left is removed"
            );
            self.daemon.remove(&listed.id).await?;
        }
        let things = self.state().things.clone();
        for (thing, since) in things {
            let removed = self.remove(&thing).await;
            let settled = since.elapsed() >= deadline::SETTLED;
            match removed {
                Ok(()) if settled => self.state().things.retain(|(other, _)| *other != thing),
                // It may be made only now.
                Ok(()) => found = Found::Something,
                Err(error) => {
                    tracing::debug!(?thing, %error, "it could not be removed yet");
                    found = Found::Something;
                }
            }
        }
        Ok(found)
    }

    async fn remove(&self, thing: &Thing) -> Result<(), DaemonError> {
        match thing {
            Thing::Image(reference) => self.daemon.remove_image(reference).await,
            Thing::Volume(volume) => {
                if guest_volume::is_pointed_to(self.daemon.as_ref(), volume).await? {
                    return Ok(());
                }
                self.daemon.remove_volume(volume.name()).await
            }
        }
    }
}
