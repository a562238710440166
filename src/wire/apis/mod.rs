//! The APIs, one file each, and the lists of who answers which.
pub mod metadata;

use kafka_protocol::protocol::StrBytes;

use crate::wire::broker::Broker;
use crate::wire::registry::Entry;

/// What an authorized-operations field holds when it was not asked for, or cannot be told: there is no authorizer.
pub const OPERATIONS_NOT_ASKED: i32 = i32::MIN;

/// Text as the protocol crate holds it.
pub fn text(text: impl Into<String>) -> StrBytes {
    StrBytes::from_string(text.into())
}

/// The APIs a [`Broker`] answers. One line each.
pub fn broker_apis<S: Broker>() -> Vec<Entry<S>> {
    vec![Entry::of::<metadata::Metadata>()]
}
