//! Consumers without a group over a restart: they have no commit that would say where they are.
//!
//! What the guard counts of them is kept, and counts for ten minutes from the next start on: while no engine runs, nobody can
//! fetch. An offset is as of the last look, so it is rather too low than too high.
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::codec::{Unreadable, put_name};
use super::fetchers::Fetchers;
use super::inventory::Alone;
use super::{PositionsError, Shared};
use crate::engine::store::{Batch, Store, Table};
use crate::wire::groups::messages::Client;
use crate::wire::groups::output::Now;

/// Positions that are kept at most; beyond them it is kept only that there are more.
const MOST_POSITIONS: usize = 10_000;
/// The key of the entry that says so; others begin with a topic id, which is longer.
const MORE: &[u8] = b"more";

/// One consumer on one topic, as stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    topic_id: Uuid,
    client_id: String,
    host: String,
    /// Partition -> offset and wall-clock time of the last fetch.
    positions: BTreeMap<i32, (i64, i64)>,
}

/// Keys and values of the table.
pub(super) type Entries = HashMap<Vec<u8>, Vec<u8>>;

fn key(alone: &Alone) -> Vec<u8> {
    let mut key = alone.topic_id.as_bytes().to_vec();
    put_name(&mut key, &alone.client_id);
    put_name(&mut key, &alone.host);
    key
}

/// What is to be kept of these consumers; `more` where there are others that nobody remembers.
fn entries(alone: Vec<Alone>, mut more: bool) -> Result<Entries, Unreadable> {
    let mut entries = Entries::new();
    let mut count = 0_usize;
    for consumer in alone {
        count = count.saturating_add(consumer.positions.len());
        if count > MOST_POSITIONS {
            more = true;
            break;
        }
        let key = key(&consumer);
        let kept = Kept {
            topic_id: consumer.topic_id,
            client_id: consumer.client_id.to_string(),
            host: consumer.host.to_string(),
            positions: consumer.positions,
        };
        let value = serde_json::to_vec(&kept).map_err(|error| Unreadable::new(Table::Fetchers, error))?;
        entries.insert(key, value);
    }
    if more {
        entries.insert(MORE.to_vec(), Vec::new());
    }
    Ok(entries)
}

/// Takes up what was kept, and answers it.
pub(super) fn load(store: &Store, fetchers: &Fetchers, now: Now) -> Result<Entries, PositionsError> {
    let mut written = Entries::new();
    for (key, value) in store.scan(Table::Fetchers)? {
        if key == MORE {
            fetchers.not_remembered(now);
        } else {
            let kept: Kept =
                serde_json::from_slice(&value).map_err(|error| Unreadable::new(Table::Fetchers, error))?;
            let client = Client {
                id: Arc::from(kept.client_id),
                host: Arc::from(kept.host),
                connection: 0,
            };
            fetchers.restore(&client, kept.topic_id, &kept.positions, now);
        }
        written.insert(key, value);
    }
    Ok(written)
}

impl Shared {
    /// Keeps where consumers without a group are, as far as that has changed.
    pub(super) async fn remember(&self) {
        let overflowed = self.fetchers.overflowed(self.now().monotonic_ms);
        let entries = match entries(self.alone(), overflowed) {
            Ok(entries) => entries,
            Err(error) => {
                tracing::error!(%error, "where consumers without a group are cannot be kept");
                return;
            }
        };
        let mut batch = Batch::new();
        {
            let written = self.written.lock();
            for (key, value) in entries
                .iter()
                .filter(|(key, value)| written.get(*key) != Some(value))
            {
                batch.put(Table::Fetchers, key.clone(), value.clone());
            }
            for key in written.keys().filter(|key| !entries.contains_key(*key)) {
                batch.remove(Table::Fetchers, key.clone());
            }
        }
        match self.store.write(batch).await {
            Ok(()) => *self.written.lock() = entries,
            Err(error) => {
                tracing::warn!(%error, "where consumers without a group are could not be kept; it is tried again");
            }
        }
    }
}
