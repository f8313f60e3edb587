//! The deadline of every call to the daemon: none may wait for ever, whatever the daemon does.
//!
//! Generous against a loaded machine, since a deadline that fires early loses a sandbox that was about
//! to be ready.

use std::time::Duration;

/// Questions that the daemon answers from memory.
pub(super) const QUERY: Duration = Duration::from_secs(20);
/// Making a container, which sets up its file system.
pub(super) const CREATE: Duration = Duration::from_mins(1);
/// Opening the attach stream.
pub(super) const ATTACH: Duration = Duration::from_secs(20);
/// Starting a container, which runs the runtime.
pub(super) const START: Duration = Duration::from_mins(1);
/// Raising the resources of a running container.
pub(super) const UPDATE: Duration = Duration::from_secs(20);
/// Killing a container.
pub(super) const KILL: Duration = Duration::from_secs(20);
/// Removing a container, or a volume, or an image.
pub(super) const REMOVE: Duration = Duration::from_mins(1);
/// Importing the guest's image.
pub(super) const IMPORT: Duration = Duration::from_mins(2);
/// How long a dead sandbox's verdict is waited for.
pub(super) const OOM_VERDICT: Duration = Duration::from_secs(3);
/// How long it is waited for how a container ended whose guest never greeted.
pub(super) const LOST_VERDICT: Duration = Duration::from_secs(3);
/// How long the seeding container may take to end after its start.
pub(super) const SEED: Duration = Duration::from_mins(1);
/// How long [`super::Engine::close`] waits for the clean-up that is under way before it removes by force.
pub(super) const CLOSE: Duration = Duration::from_secs(8);
/// How long the daemon may still be making what it was asked for by somebody who is not there any more: longer than
/// [`IMPORT`] and [`CREATE`].
pub(super) const SETTLED: Duration = Duration::from_secs(150);
