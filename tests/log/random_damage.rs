//! Random bytes in the files of a partition.
use tidemark::log::batch;
use tidemark::log::read::Isolation;

use crate::bench::*;

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    /// Whatever is damaged in closed segments, what lies outside of the damage is served, and nothing wrong is.
    #[test]
    fn random_damage_in_closed_segments_costs_itself_only(
        damage in proptest::collection::vec((0..1_500_usize, 1..60_usize, proptest::prelude::any::<u8>()), 1..5),
        restart in proptest::prelude::any::<bool>(),
    ) {
        let mut bench = Bench::new(&[("index.interval.bytes", "0")]);
        for n in 0..17 {
            bench.batches(1, NOW + n);
        }
        let whole: Vec<Vec<u8>> = [0, 5, 10].map(|base| std::fs::read(bench.file(&format!("{base:020}.log"))).unwrap()).into();
        let mut bytes = whole.concat();
        for (at, len, xor) in damage {
            bytes.iter_mut().skip(at).take(len).for_each(|byte| *byte ^= xor);
        }
        let hit: Vec<bool> = (0..15).map(|n| bytes[n * 100..][..100] != whole.concat()[n * 100..][..100]).collect();
        for (n, base) in [0, 5, 10].into_iter().enumerate() {
            std::fs::write(bench.file(&format!("{base:020}.log")), &bytes[n * 500..][..500]).unwrap();
        }
        bench.crash();
        if restart {
            bench.restart();
        }
        proptest::prop_assert_eq!(bench.log().log_end(), 17);
        for offset in 0..17_i64 {
            let hit = hit.get(offset as usize).copied().unwrap_or(false);
            match bench.log().read(offset, 1, true, Isolation::ReadUncommitted) {
                Ok(slice) if !hit => {
                    let read = slice.to_vec().unwrap();
                    proptest::prop_assert_eq!(slice.base_offset, offset);
                    if let Some(expected) = whole.concat().get(offset as usize * 100..offset as usize * 100 + 100) {
                        proptest::prop_assert_eq!(&read[..], expected);
                    }
                }
                // The bytes before the checksummed part (offset, leader epoch) may change and still make a legal batch.
                Ok(slice) => {
                    let read = slice.to_vec().unwrap();
                    batch::BatchHeader::parse(&read).unwrap().check_crc(&read).unwrap();
                }
                Err(tidemark::log::read::ReadError::Damaged { from, to }) => {
                    proptest::prop_assert!(hit && from <= offset && offset < to, "{} {} {}", offset, from, to);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 150, failure_persistence: None, ..Default::default() })]

    /// Any bytes in any file, cut anywhere: opening and reading end, with a result or an error, and never with a panic; whatever is
    /// read are whole batches with right checksums as far as the log itself was left alone.
    #[test]
    fn any_bytes_in_any_file_never_panic(
        damage in proptest::collection::vec((0..100_usize, 0..600_usize, proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40)), 1..4),
        cut in proptest::option::of((0..100_usize, 0..600_u64)),
        clean in proptest::prelude::any::<bool>(),
    ) {
        let mut bench = Bench::new(&[("index.interval.bytes", "0"), ("retention.ms", "10000")]);
        for sequence in 0..13 {
            bench.append(&Maker::default().producer(3, 0, 2 * sequence).stamps(&[NOW + i64::from(sequence); 2]).build()).unwrap();
        }
        bench.log().close().unwrap();
        let names = bench.names();
        for (file, at, bytes) in damage {
            let path = bench.file(&names[file % names.len()]);
            let mut content = std::fs::read(&path).unwrap();
            let at = at % (content.len() + 1);
            let end = (at + bytes.len()).min(content.len());
            content.splice(at..end, bytes);
            std::fs::write(&path, content).unwrap();
        }
        if let Some((file, len)) = cut {
            let file = std::fs::File::options().write(true).open(bench.file(&names[file % names.len()])).unwrap();
            file.set_len(len).unwrap();
        }
        if bench.open(clean, 0).is_err() {
            return Ok(());
        }
        let log = bench.log();
        for offset in log.log_start()..=log.log_end().min(log.log_start() + 40) {
            if let Ok(slice) = log.read(offset, 1_000, true, Isolation::ReadCommitted) {
                let _ = slice.to_vec();
            }
        }
        for timestamp in [-1, 0, NOW, NOW + 5, i64::MAX] {
            let _ = log.offset_for_timestamp(timestamp, Isolation::ReadUncommitted);
        }
        let _ = log.max_timestamp(Isolation::ReadUncommitted);
        let _ = bench.append(&one(NOW));
        let _ = bench.log().retain(NOW + DAY);
        let _ = bench.log().close();
    }
}
