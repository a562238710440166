//! Chance that is the same everywhere for the same seed.

#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// Steele, Lea and Flood's SplitMix64.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From `low` up to, not including, `high`.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + i64::try_from(self.next() % u64::try_from(high - low).unwrap()).unwrap()
    }

    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(len).unwrap()).unwrap()
    }

    pub fn one_in(&mut self, n: i64) -> bool {
        self.between(0, n) == 0
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }
}

/// How many rounds a random test runs: `normal`, or `long` with `TIDEMARK_LONG=1`. `TIDEMARK_SEED` sets the first seed.
pub fn rounds(normal: u64, long: u64) -> std::ops::Range<u64> {
    let first = std::env::var("TIDEMARK_SEED")
        .ok()
        .map_or(1, |seed| seed.parse().expect("TIDEMARK_SEED is a number"));
    let count = if std::env::var("TIDEMARK_LONG").is_ok_and(|long| long == "1") {
        long
    } else {
        normal
    };
    first..first + count
}
