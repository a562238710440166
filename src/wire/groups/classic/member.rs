//! A member of a classic group.
use std::sync::Arc;

use crate::wire::error_code::ErrorCode;
use bytes::Bytes;

use crate::wire::groups::messages::{Client, JoinReply, JoinedMember, OfferedProtocol, SyncReply};
use crate::wire::groups::output::{Output, Reply, Token};
use crate::wire::groups::weight::{MEMBER, TEXT};

/// A member of a classic group.
#[derive(Debug)]
pub struct Member {
    pub(super) id: Arc<str>,
    pub(super) instance_id: Option<Arc<str>>,
    pub(super) client: Client,
    pub(super) session_timeout_ms: i32,
    pub(super) rebalance_timeout_ms: i32,
    pub(super) protocols: Vec<OfferedProtocol>,
    pub(super) assignment: Bytes,
    pub(super) awaiting_join: Option<Token>,
    pub(super) awaiting_sync: Option<Token>,
    /// It has not been answered yet, so it does not know its id and cannot send heartbeats.
    pub(super) is_new: bool,
    /// When it is removed unless it is heard of, monotonic.
    pub(super) deadline_ms: Option<i64>,
}

impl Member {
    pub(in crate::wire::groups) fn id(&self) -> &Arc<str> {
        &self.id
    }

    pub(in crate::wire::groups) fn client(&self) -> &Client {
        &self.client
    }

    pub(in crate::wire::groups) fn assignment(&self) -> &Bytes {
        &self.assignment
    }

    /// What it holds in memory, bytes.
    pub(in crate::wire::groups) fn weight(&self) -> usize {
        let texts = [Some(&self.id), self.instance_id.as_ref(), Some(&self.client.id)];
        let texts = texts.into_iter().flatten().map(|text| TEXT + text.len());
        let protocols = self.protocols.iter();
        let protocols = protocols.map(|offered| TEXT + offered.name.len() + offered.metadata.len());
        MEMBER + self.assignment.len() + texts.chain(protocols).sum::<usize>()
    }

    /// What it said for `protocol`.
    pub(super) fn metadata(&self, protocol: &str) -> Bytes {
        self.protocols
            .iter()
            .find(|offered| offered.name == protocol)
            .map(|offered| offered.metadata.clone())
            .unwrap_or_default()
    }

    pub(super) fn joined(&self, protocol: &str) -> JoinedMember {
        JoinedMember {
            member_id: self.id.to_string(),
            instance_id: self.instance_id.as_deref().map(str::to_owned),
            metadata: self.metadata(protocol),
        }
    }

    /// A member that waits for the coordinator is not expected to send heartbeats, unless it never had an id
    /// to send them with.
    pub(super) fn is_excused(&self) -> bool {
        !self.is_new && (self.awaiting_join.is_some() || self.awaiting_sync.is_some())
    }

    /// Heard of: the session begins anew.
    pub(super) fn renew(&mut self, now_ms: i64) {
        self.deadline_ms = Some(now_ms.saturating_add(i64::from(self.session_timeout_ms)));
    }

    /// Waits for the end of the rebalance. An earlier wait is one whose client gave up and asked again.
    pub(super) fn await_join(&mut self, token: Token, out: &mut Output) {
        if let Some(earlier) = self.awaiting_join.replace(token) {
            let reply = JoinReply::refused(ErrorCode::RebalanceInProgress, &*self.id);
            out.replies.push((earlier, Reply::Join(reply)));
        }
    }

    /// Waits for the assignment.
    pub(super) fn await_sync(&mut self, token: Token, out: &mut Output) {
        if let Some(earlier) = self.awaiting_sync.replace(token) {
            let reply = SyncReply::refused(ErrorCode::RebalanceInProgress);
            out.replies.push((earlier, Reply::Sync(reply)));
        }
    }

    pub(super) fn answer_join(&mut self, reply: JoinReply, out: &mut Output) -> bool {
        let token = self.awaiting_join.take();
        if let Some(token) = token {
            out.replies.push((token, Reply::Join(reply)));
        }
        token.is_some()
    }

    pub(super) fn answer_sync(&mut self, reply: SyncReply, out: &mut Output) -> bool {
        let token = self.awaiting_sync.take();
        if let Some(token) = token {
            out.replies.push((token, Reply::Sync(reply)));
        }
        token.is_some()
    }

    pub(super) fn refuse_waiting(&mut self, error: ErrorCode, out: &mut Output) {
        let reply = JoinReply::refused(error, &*self.id);
        self.answer_join(reply, out);
        self.answer_sync(SyncReply::refused(error), out);
    }
}
