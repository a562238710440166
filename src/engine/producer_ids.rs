//! Producer ids: never the same twice, whatever happens.
//!
//! Ids are taken from blocks, and a block is recorded before its first id is handed out, so a crash skips ids and repeats
//! none. Without a recorded block the first one begins where no earlier store can have come: the data directory may hold
//! producers of a Kafka broker, or of a store that was lost, and an id of theirs would be taken for a duplicate.
use parking_lot::Mutex;

use crate::engine::store::{Batch, Store, StoreError, Table};

/// Ids in a block.
const BLOCK: i64 = 1_000;
const KEY: &str = "next-producer-id-block";

/// Hands out producer ids.
#[derive(Debug)]
pub struct ProducerIds {
    store: Store,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next: i64,
    end: i64,
}

impl ProducerIds {
    /// Goes on after the last recorded block; `first` is where to begin if there is none.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn load(store: Store, first: i64) -> Result<Self, StoreError> {
        let recorded = store
            .get(Table::Engine, KEY.as_bytes())?
            .and_then(|value| std::str::from_utf8(&value).ok()?.parse().ok());
        let next = recorded.unwrap_or(first);
        Ok(Self {
            store,
            state: Mutex::new(State { next, end: next }),
        })
    }

    /// The next id. Blocks on the store once in a thousand times.
    ///
    /// # Errors
    /// The next block cannot be recorded.
    pub fn next(&self) -> Result<i64, StoreError> {
        let mut state = self.state.lock();
        if state.next == state.end {
            let end = state.next.saturating_add(BLOCK);
            let mut batch = Batch::new();
            batch.put(Table::Engine, KEY, end.to_string());
            self.store.write_blocking(batch)?;
            state.end = end;
        }
        let id = state.next;
        state.next += 1;
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_rise_and_a_restart_skips_what_is_left_of_a_block() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("state.redb");
        let store = Store::open(&path).unwrap();
        let ids = ProducerIds::load(store.clone(), 7).unwrap();
        let first: Vec<i64> = (0..BLOCK + 1).map(|_| ids.next().unwrap()).collect();
        assert!(first.windows(2).all(|pair| pair[1] == pair[0] + 1));
        assert_eq!(first[0], 7);
        store.close();
        let store = Store::open(&path).unwrap();
        let ids = ProducerIds::load(store, 7).unwrap();
        assert_eq!(ids.next().unwrap(), 7 + 2 * BLOCK);
    }
}
