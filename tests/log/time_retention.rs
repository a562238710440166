//! Scenarios 1 to 18: time retention.
use crate::bench::*;

#[test]
fn s001_everything_expired_rolls_and_deletes_the_active_segment_too() {
    let bench = Bench::new(&[("retention.ms", "10000")]);
    bench.batches(15, NOW - 20_000);
    assert_eq!(bench.bases(), [0, 5, 10]);
    assert_eq!(bench.after_run(), (15, vec![15], 3));
    assert_eq!(bench.log().log_end(), 15);
    assert_eq!(bench.append(&one(NOW)).unwrap().base_offset, 15);
}
