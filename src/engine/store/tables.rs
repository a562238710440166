//! The tables of the store. Keys and values are bytes; each owner encodes its own.
use redb::TableDefinition;

/// A table of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Topic name -> id, partitions, owner, settings (JSON).
    Topics,
    /// Topic id -> name and partitions of a topic whose deletion has begun (JSON).
    Deletions,
    /// Topic name -> desired state that waits for a reader (JSON).
    PendingChanges,
    /// Single values of the engine: next producer-id block, wall time last seen.
    Engine,
    /// Topic and partition -> log start offset that no file name implies (decimal).
    LogStarts,
    /// Topic and reader -> how many unread records were given up on purpose (decimal).
    AcceptedLosses,
    /// Sequence number -> event that must outlive a restart (JSON).
    Events,
    /// Request id -> verdict, so that a repeated request is answered and not repeated (JSON).
    Requests,
    /// Group id -> metadata of the group.
    Groups,
    /// Group, topic and partition -> committed offset.
    CommittedOffsets,
    /// Group, topic and partition -> last position of a reader whose commit expired or whose topic was deleted.
    FormerPositions,
    /// Topic id, client id and address -> where a consumer without a group was last seen (JSON).
    Fetchers,
}

impl Table {
    /// Every table.
    pub const ALL: [Self; 12] = [
        Self::Topics,
        Self::Deletions,
        Self::PendingChanges,
        Self::Engine,
        Self::LogStarts,
        Self::AcceptedLosses,
        Self::Events,
        Self::Requests,
        Self::Groups,
        Self::CommittedOffsets,
        Self::FormerPositions,
        Self::Fetchers,
    ];

    /// The name in the file; changing one loses what is stored under it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Topics => "topics",
            Self::Deletions => "deletions",
            Self::PendingChanges => "pending-changes",
            Self::Engine => "engine",
            Self::LogStarts => "log-starts",
            Self::AcceptedLosses => "accepted-losses",
            Self::Events => "events",
            Self::Requests => "requests",
            Self::Groups => "groups",
            Self::CommittedOffsets => "committed-offsets",
            Self::FormerPositions => "former-positions",
            Self::Fetchers => "fetchers",
        }
    }

    pub(super) fn definition(self) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
        TableDefinition::new(self.name())
    }
}
