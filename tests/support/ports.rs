//! Free ports on the loopback address.
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::TcpListener;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the range that the kernel hands out for outgoing connections, so that a port found free stays free until its process binds it.
const FIRST: u32 = 10_000;
const COUNT: u32 = 22_000;

/// A port of 127.0.0.1 that nothing listens on. Each call of a process answers another one; processes start at places of chance, since
/// ids repeat where each run has its own.
pub fn free_port() -> u16 {
    static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| {
        let chance = RandomState::new().hash_one(std::process::id());
        AtomicU32::new((chance % u64::from(COUNT)) as u32)
    });
    for _ in 0..COUNT {
        let port = FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = u16::try_from(port).expect("the range is below 65536");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}
