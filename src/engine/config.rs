//! How an engine is set up. Every value is decided before start; what can change while it runs is a topic setting.
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
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
#[error(
    "durability {0:?} is not one of: page-cache, interval=DURATION (1ms or more, for example interval=1s), ack"
)]
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

/// What clients are told to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertised {
    /// A name or an IP address, IPv6 without brackets.
    pub host: String,
    /// `None` is the port that is listened on.
    pub port: Option<u16>,
}

/// Nothing that a client could connect to.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "what clients connect to is written HOST or HOST:PORT, the port from 1 to 65535, such as broker.example.com:9092; an IPv6 address \
     stands in brackets, and 0.0.0.0 is no address to connect to"
)]
pub struct InvalidAdvertised;

impl Advertised {
    /// Reads `HOST` or `HOST:PORT`. Port 0 stands for the one that is listened on, which need not be known beforehand.
    ///
    /// # Errors
    /// Another form, a port beyond 65535, or an address that stands for all of a machine.
    pub fn parse(text: &str) -> Result<Self, InvalidAdvertised> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or(InvalidAdvertised)?;
                host.parse::<Ipv6Addr>().map_err(|_| InvalidAdvertised)?;
                (host, port.strip_prefix(':').or(port.is_empty().then_some("0")))
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, Some("0")),
            },
        };
        let port: u16 = port.and_then(|port| port.parse().ok()).ok_or(InvalidAdvertised)?;
        let unspecified = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified());
        let name = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
        if host.is_empty() || unspecified || !host.chars().all(name) {
            return Err(InvalidAdvertised);
        }
        Ok(Self {
            host: host.to_owned(),
            port: (port != 0).then_some(port),
        })
    }
}

/// What an engine is started with.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// The data directory; created if it is not there.
    pub data: PathBuf,
    /// Where Kafka clients connect. Port 0 takes any free port.
    pub listen: SocketAddr,
    /// What clients are told to connect to; `None` means as listened.
    pub advertise: Option<Advertised>,
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
    fn what_is_advertised_is_a_host_and_perhaps_a_port() {
        let read = |text: &str| Advertised::parse(text).map(|read| (read.host, read.port));
        let host = |host: &str, port| Ok((host.to_owned(), port));
        assert_eq!(
            read("broker.example.com:9092"),
            host("broker.example.com", Some(9092))
        );
        assert_eq!(read("broker_1"), host("broker_1", None));
        assert_eq!(read("10.0.0.1:0"), host("10.0.0.1", None));
        assert_eq!(read("[fd00::1]:19092"), host("fd00::1", Some(19092)));
        assert_eq!(read("[fd00::1]"), host("fd00::1", None));
        for wrong in [
            "",
            ":9092",
            "host:",
            "host:99999",
            "host:-1",
            "host:9092:9093",
            "http://host:9092",
            "two hosts:9092",
            "0.0.0.0:9092",
            "[::]:9092",
            "::1",
            "[fd00::1",
            "[fd00::1]9092",
            "[host]:9092",
        ] {
            assert_eq!(read(wrong), Err(InvalidAdvertised), "{wrong}");
        }
    }

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
