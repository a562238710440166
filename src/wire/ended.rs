//! How a connection comes to its end.
use std::io;
use std::time::Duration;

use thiserror::Error;

use crate::wire::frame::FrameError;
use crate::wire::registry::CallError;
use crate::wire::schema::Malformed;

/// Why a connection ended.
#[derive(Debug, Error)]
pub(crate) enum Ended {
    #[error("the peer closed it")]
    Closed,
    #[error("the server stops")]
    Stopping,
    #[error("nothing was asked for {0:?}")]
    Idle(Duration),
    #[error("a frame was not complete after {0:?}")]
    Slow(Duration),
    #[error("the peer takes nothing of its answer")]
    Stalled,
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("unreadable request: {0}")]
    Malformed(#[from] Malformed),
    #[error("version {version} of API {key} is not served")]
    Unsupported { key: i16, version: i16 },
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("records could not be taken and the producer asked for no answer")]
    NoAnswer,
    #[error("a segment ended before the bytes that were promised")]
    ShortSegment,
    #[error(transparent)]
    Io(#[from] io::Error),
}
