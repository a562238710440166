//! Makes records durable, in order, many in one write.
//!
//! One write is under way at a time. Whatever is asked for meanwhile goes into the next one together, so that the cost of a
//! flush is shared by all who wait for it, and a position can be seen only once it is durable.
use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::{Shared, codec};
use crate::resource::contract::ReaderKind;
use crate::wire::groups::output::{Reply, Token};
use crate::wire::groups::record::Record;

/// Records that go into one write at most, so that nobody waits for an endless one.
const MOST_RECORDS: usize = 8_192;

/// What one input to the coordinator wants kept, and what follows from it.
#[derive(Debug)]
pub(super) struct Job {
    pub records: Vec<Record>,
    pub replies: Vec<(Token, Reply)>,
    pub changed: BTreeSet<(Arc<str>, Arc<str>)>,
    /// Told whether the records are durable.
    pub done: Option<oneshot::Sender<bool>>,
}

/// Runs until every sender of jobs is gone.
pub(super) async fn run(shared: Arc<Shared>, mut jobs: mpsc::UnboundedReceiver<Job>) {
    while let Some(first) = jobs.recv().await {
        let mut count = first.records.len();
        let mut taken = vec![first];
        while count < MOST_RECORDS {
            let Ok(job) = jobs.try_recv() else {
                break;
            };
            count += job.records.len();
            taken.push(job);
        }
        let durable = write(&shared, &taken).await;
        for job in settle(&shared, taken, durable).await {
            finish(&shared, job, durable);
        }
    }
}

/// Has the records take effect, while no change of settings is under way. One that is waits for the disk, and is waited for elsewhere
/// than on a thread that serves others.
async fn settle(shared: &Arc<Shared>, taken: Vec<Job>, durable: bool) -> Vec<Job> {
    if let Some(_no_change_of_settings) = shared.gate.try_share() {
        settle_now(shared, &taken, durable);
        return taken;
    }
    let waiting = Arc::clone(shared);
    let settled = tokio::task::spawn_blocking(move || {
        let _no_change_of_settings = waiting.gate.share();
        settle_now(&waiting, &taken, durable);
        taken
    });
    settled.await.unwrap_or_else(|error| {
        tracing::error!(%error, "what was kept of positions and groups takes effect at the next start");
        Vec::new()
    })
}

fn settle_now(shared: &Shared, taken: &[Job], durable: bool) {
    let mut coordinator = shared.coordinator.lock();
    for job in taken {
        coordinator.settled(&job.records, durable);
    }
}

async fn write(shared: &Shared, jobs: &[Job]) -> bool {
    let records = jobs.iter().flat_map(|job| &job.records);
    let result = match codec::batch(records) {
        Ok(batch) => shared.store.write(batch).await.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match result {
        Ok(()) => true,
        Err(error) => {
            tracing::error!(error, "positions and groups could not be kept");
            false
        }
    }
}

fn finish(shared: &Shared, job: Job, durable: bool) {
    shared.answer(job.replies);
    if let Some(done) = job.done {
        // Whoever asked may have gone away; what is kept is kept.
        let _ = done.send(durable);
    }
    let listener = shared.listener.read().clone();
    let Some(listener) = listener else {
        return;
    };
    let kind = ReaderKind::Group;
    for record in job.records.iter().filter(|_| durable) {
        match record {
            Record::Commit { key, value } => {
                listener.moved(&key.topic, kind, &key.group, key.partition, value.offset);
            }
            Record::Forget { key, .. } | Record::ForgetFormer { key } => {
                listener.changed(&key.topic, kind, &key.group);
            }
            Record::Group { .. } | Record::GroupGone { .. } => {}
        }
    }
    for (topic, group) in &job.changed {
        listener.changed(topic, kind, group);
    }
}
