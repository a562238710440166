//! How an engine is set up. Every value is decided before start; what can change while it runs is a topic setting.
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::telemetry::clock::{Clock, SystemClock};

/// When an acknowledged record is on stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// In the page cache, as Kafka does by default: survives the process, not the machine.
    #[default]
    PageCache,
    /// Flushed at least this often.
    Interval(Duration),
    /// Flushed before the acknowledgement of `acks=all`, many appends in one flush.
    Ack,
}

/// A durability that is none of the three forms.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("durability {0:?} is not one of: page-cache, interval=DURATION (for example interval=1s), ack")]
pub struct InvalidDurability(pub String);

impl Durability {
    /// Reads `page-cache`, `ack` or `interval=DURATION`; `duration` reads the part after `=` as milliseconds.
    pub fn parse(text: &str, duration: impl Fn(&str) -> Option<Duration>) -> Result<Self, InvalidDurability> {
        let invalid = || InvalidDurability(text.to_owned());
        match text.split_once('=') {
            None if text == "page-cache" => Ok(Self::PageCache),
            None if text == "ack" => Ok(Self::Ack),
            Some(("interval", every)) => match duration(every) {
                Some(every) if !every.is_zero() => Ok(Self::Interval(every)),
                _ => Err(invalid()),
            },
            _ => Err(invalid()),
        }
    }
}

/// What an engine is started with.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// The data directory; created if it is not there.
    pub data: PathBuf,
    /// Where Kafka clients connect. Port 0 takes any free port.
    pub listen: SocketAddr,
    /// What clients are told to connect to, `HOST:PORT`; `None` means as listened.
    pub advertise: Option<String>,
    /// Where the control API is served; `None` serves none.
    pub control: Option<SocketAddr>,
    /// The bearer token of the control API; required where `control` is not a loopback address.
    pub control_token: Option<String>,
    /// Time between two retention passes (`log.retention.check.interval.ms`).
    pub check_interval: Duration,
    /// Engine-wide defaults of topic keys, canonical text.
    pub defaults: BTreeMap<String, String>,
    /// Exactly Kafka's behaviour: no idle roll, no clock guard.
    pub kafka_exact: bool,
    /// When an acknowledged record is on stable storage.
    pub durability: Durability,
    /// The identity (Kafka's cluster id) the directory must have; `None` accepts what it finds.
    pub identity: Option<String>,
    /// Take over a directory of another identity.
    pub adopt: bool,
    /// The node id of this broker.
    pub node_id: i32,
    /// Create a topic when a client asks for the metadata of an unknown one (`auto.create.topics.enable`).
    pub auto_create_topics: bool,
    /// Partitions of a topic whose creator names none (`num.partitions`).
    pub default_partitions: i32,
    /// The most partitions this engine holds.
    pub max_partitions: usize,
    /// The most segment files open at one time.
    pub max_open_files: usize,
    /// How long a committed offset outlives its group (`offsets.retention.minutes`).
    pub offsets_retention: Duration,
    /// How long an idle idempotent producer is remembered (`producer.id.expiration.ms`).
    pub producer_id_expiration: Duration,
    /// How long passes wait after a clock jump before they believe the clock.
    pub clock_jump_hold: Duration,
    /// A reader that may stop for less than this before it loses a record is reported.
    pub headroom_alert: Duration,
    /// Free bytes below which produce is refused so that the rest keeps working.
    pub reserved_bytes: u64,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
}

impl EngineConfig {
    /// The defaults, on this data directory.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            listen: SocketAddr::from(([127, 0, 0, 1], 9092)),
            advertise: None,
            control: Some(SocketAddr::from(([127, 0, 0, 1], 9097))),
            control_token: None,
            check_interval: Duration::from_secs(300),
            defaults: BTreeMap::new(),
            kafka_exact: false,
            durability: Durability::PageCache,
            identity: None,
            adopt: false,
            node_id: 1,
            auto_create_topics: false,
            default_partitions: 1,
            max_partitions: 100_000,
            max_open_files: 1_024,
            offsets_retention: Duration::from_secs(7 * 24 * 3600),
            producer_id_expiration: Duration::from_secs(24 * 3600),
            clock_jump_hold: Duration::from_secs(3600),
            headroom_alert: Duration::from_secs(3600),
            reserved_bytes: 1 << 20,
            clock: Arc::new(SystemClock::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durability_has_three_forms() {
        let seconds = |text: &str| text.strip_suffix('s')?.parse().ok().map(Duration::from_secs);
        assert_eq!(
            Durability::parse("page-cache", seconds),
            Ok(Durability::PageCache)
        );
        assert_eq!(Durability::parse("ack", seconds), Ok(Durability::Ack));
        assert_eq!(
            Durability::parse("interval=2s", seconds),
            Ok(Durability::Interval(Duration::from_secs(2)))
        );
        for wrong in [
            "",
            "Ack",
            "interval",
            "interval=",
            "interval=0s",
            "interval=x",
            "ack=1s",
        ] {
            let error = Durability::parse(wrong, seconds).unwrap_err();
            assert!(error.to_string().contains("page-cache"), "{error}");
        }
    }
}
