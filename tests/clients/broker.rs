//! The broker under the clients: Tidemark, or Apache Kafka when the cells themselves are to be judged.
use crate::support::kafka::Kafka;
use crate::support::temp::TempDir;
use crate::support::tidemark::Tidemark;

#[derive(Debug)]
pub enum Broker {
    Tidemark { engine: Tidemark, _home: TempDir },
    Kafka(Kafka),
}

impl Broker {
    #[track_caller]
    pub fn start() -> Self {
        match std::env::var("TIDEMARK_CLIENTS_AGAINST").as_deref() {
            Ok("kafka") => Self::Kafka(Kafka::start(&[])),
            Ok(other) => panic!("TIDEMARK_CLIENTS_AGAINST={other}: only 'kafka' is known"),
            Err(_) => {
                let home = TempDir::new("clients");
                Self::Tidemark {
                    engine: Tidemark::engine(home.path(), &[]),
                    _home: home,
                }
            }
        }
    }

    pub fn bootstrap(&self) -> &str {
        match self {
            Self::Tidemark { engine, .. } => engine.bootstrap(),
            Self::Kafka(kafka) => kafka.bootstrap(),
        }
    }

    /// A clean stop and a start on the same port.
    #[track_caller]
    pub fn restart(&mut self) {
        match self {
            Self::Tidemark { engine, .. } => {
                let status = engine.stop();
                assert!(status.success(), "a stopped engine ends well: {status}");
                engine.start_again();
            }
            Self::Kafka(kafka) => {
                kafka.stop();
                kafka.start_again();
            }
        }
    }

    /// kill -9 and a start on the same port.
    #[track_caller]
    pub fn crash(&mut self) {
        match self {
            Self::Tidemark { engine, .. } => {
                engine.kill();
                engine.start_again();
            }
            Self::Kafka(kafka) => {
                kafka.kill();
                kafka.start_again();
            }
        }
    }
}
