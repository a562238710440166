//! Where Topics come from: a cluster, or a directory of manifests.
//!
//! A source keeps resources and runs rounds for them; what a round decides is the same for both.
pub mod cluster;
pub mod directory;
mod patience;
pub mod records;
mod scan;
mod writes;

use super::notices::Notice;
use crate::resource::manifest::Fault;
use crate::resource::status::TopicStatus;

/// What a source has to tell whoever watches it: a terminal, or a log.
#[derive(Debug, Clone)]
pub enum Report {
    /// A manifest that is not taken.
    Fault {
        /// The file, relative to the directory.
        file: String,
        /// What is wrong in it.
        fault: Fault,
    },
    /// The faults of a file are gone.
    Mended {
        /// The file, relative to the directory.
        file: String,
        /// Whether it is still there.
        there: bool,
    },
    /// An event about a Topic.
    Notice {
        /// `namespace/name`.
        topic: String,
        /// What happened.
        notice: Notice,
    },
    /// The status of a Topic has changed.
    Status {
        /// `namespace/name`.
        topic: String,
        /// The new one.
        status: Box<TopicStatus>,
    },
    /// A Topic is gone.
    Gone {
        /// `namespace/name`.
        topic: String,
    },
    /// The engine answers, or no more.
    Engine {
        /// Whether it does.
        reachable: bool,
    },
}

/// Writes a report to the log.
pub fn log(report: &Report) {
    match report {
        Report::Fault { file, fault } => tracing::warn!(file, %fault, "manifest is not taken"),
        Report::Mended { file, there: true } => tracing::info!(file, "manifest is in order again"),
        Report::Mended { file, there: false } => tracing::info!(file, "manifest with faults is gone"),
        Report::Notice { topic, notice } if notice.warning => {
            tracing::warn!(topic, reason = notice.reason, "{}", notice.note);
        }
        Report::Notice { topic, notice } => tracing::info!(topic, reason = notice.reason, "{}", notice.note),
        Report::Status { topic, status } => {
            let ready = status.condition("Ready");
            let (ready, reason) =
                ready.map_or(("", ""), |ready| (ready.status.as_str(), ready.reason.as_str()));
            tracing::info!(topic, ready, reason, "status");
        }
        Report::Gone { topic } => tracing::info!(topic, "gone"),
        Report::Engine { reachable: true } => tracing::info!("the engine answers"),
        Report::Engine { reachable: false } => tracing::warn!("the engine does not answer"),
    }
}
