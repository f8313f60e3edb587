//! What this process has read of the entries, so that listing and sweeping parse each of them once.

use std::{collections::HashMap, fs, io, path::Path, sync::Arc};

use jiff::Timestamp;

use super::{
    disk::{Disk, read_entry},
    entry::{Cursor, Entry, Kind, Page},
    store::StoreError,
};
use crate::types::{Caller, RunId};

/// Entries by file name. An entry never changes, so one that is still there is still right.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: HashMap<String, Arc<Entry>>,
}

impl Disk {
    /// All entries that are there now, in no order, expired ones among them.
    pub(super) fn entries(&self) -> Result<Vec<Arc<Entry>>, StoreError> {
        let dir = self.root.join("entries");
        let names = names_in(&dir).map_err(StoreError::io("list the entries"))?;
        // A panic while the lock was held leaves at worst fewer entries remembered.
        let mut index = self
            .index
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut known = std::mem::take(&mut index.entries);
        for name in names {
            let entry = match known.remove(&name) {
                Some(entry) => entry,
                None => match read_entry(&dir.join(&name))? {
                    Some(entry) if entry.file_name() == name => Arc::new(entry),
                    Some(_) | None => continue,
                },
            };
            index.entries.insert(name, entry);
        }
        Ok(index.entries.values().cloned().collect())
    }

    pub(super) fn list(
        &self,
        caller: &Caller,
        after: Option<&Cursor>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        let mut entries = self.entries()?;
        entries.retain(|entry| {
            entry.caller == *caller && entry.artifact_id().is_some() && !entry.is_expired(now)
        });
        entries.sort_unstable_by(|a, b| a.order().cmp(&b.order()));
        let start = after.map_or(0, |cursor| {
            let place = (std::cmp::Reverse(cursor.created), &cursor.id);
            entries.partition_point(|entry| entry.order() <= place)
        });
        let rest = &entries[start..];
        let page = &rest[..rest.len().min(limit)];
        let next = page.last().filter(|_| page.len() < rest.len());
        Ok(Page {
            entries: page.iter().map(|entry| (**entry).clone()).collect(),
            next: next.map(|last| Cursor {
                created: last.created,
                id: last.id.clone(),
            }),
        })
    }

    pub(super) fn records_of(&self, run: &RunId) -> Result<Vec<Entry>, StoreError> {
        // An output that the caller may have is not kept for the record a second time.
        let of_run = |kind: &Kind| match kind {
            Kind::Record { run: of } | Kind::Output { run: of } => of == run,
            Kind::Artifact { .. } | Kind::Upload => false,
        };
        let mut records: Vec<Entry> = self
            .entries()?
            .iter()
            .filter(|entry| of_run(&entry.kind))
            .map(|entry| (**entry).clone())
            .collect();
        records.sort_unstable_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        Ok(records)
    }
}

/// The names in a directory that are text; ours all are.
pub(super) fn names_in(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for item in fs::read_dir(dir)? {
        if let Ok(name) = item?.file_name().into_string() {
            names.push(name);
        }
    }
    Ok(names)
}
