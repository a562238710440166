use super::*;

fn samples() -> Vec<Vec<u8>> {
    let noise = |n: u32| -> Vec<u8> {
        let mut state = 0x9e37_79b9_u32;
        let mut byte = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as u8
        };
        (0..n).map(|_| byte()).collect()
    };
    vec![
        vec![],
        vec![7],
        vec![0; 100_000],
        noise(10),
        noise(200_000),
        b"abc".repeat(40_000),
    ]
}

#[test]
fn every_codec_gives_back_what_it_took() {
    for codec in Codec::ALL {
        for sample in samples() {
            let packed = compress(codec, &sample, None).unwrap();
            let plain = decompress(codec, &packed, sample.len()).unwrap();
            assert_eq!(plain, sample, "{codec:?}, {} bytes", sample.len());
        }
    }
}

#[test]
fn the_cap_is_hard_to_the_byte() {
    for codec in Codec::ALL {
        for sample in samples().into_iter().filter(|sample| !sample.is_empty()) {
            let packed = compress(codec, &sample, None).unwrap();
            let cap = sample.len() - 1;
            let error = decompress(codec, &packed, cap).unwrap_err();
            assert_eq!(error, CompressionError::TooLarge { codec, cap });
        }
    }
}

/// Levels only change how hard the encoder tries.
#[test]
fn levels_are_taken_and_strange_ones_survive() {
    for (codec, levels) in [
        (Codec::Gzip, [-1, 1, 9]),
        (Codec::Zstd, [-5, 1, 22]),
        (Codec::Lz4, [1, 9, 17]),
    ] {
        for level in levels {
            let packed = compress(codec, &[5; 1000], Some(level)).unwrap();
            assert_eq!(
                decompress(codec, &packed, 1000).unwrap(),
                [5; 1000],
                "{codec:?} {level}"
            );
        }
    }
}

#[test]
fn raw_snappy_and_glued_xerial_streams_are_read() {
    let raw = snap::raw::Encoder::new()
        .compress_vec(b"hello hello hello")
        .unwrap();
    assert_eq!(
        decompress(Codec::Snappy, &raw, 100).unwrap(),
        b"hello hello hello"
    );
    let mut glued = compress(Codec::Snappy, b"one", None).unwrap();
    glued.extend(compress(Codec::Snappy, b" two", None).unwrap());
    assert_eq!(decompress(Codec::Snappy, &glued, 100).unwrap(), b"one two");
}

/// 10 bytes that claim 4 GiB must not be believed.
#[test]
fn a_snappy_claim_is_no_allocation() {
    let claim = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0, 0];
    let error = decompress(Codec::Snappy, &claim, usize::MAX).unwrap_err();
    assert!(error.to_string().contains("claims more"), "{error}");
}

#[test]
fn a_zstd_frame_that_wants_a_huge_window_is_refused() {
    // Magic number, a descriptor without single segment, window byte 0xf8: 2^41 bytes.
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 0x01, 0x00, 0x00];
    let error = decompress(Codec::Zstd, &frame, 1 << 20).unwrap_err();
    assert!(matches!(error, CompressionError::Damaged { .. }), "{error}");
}

#[test]
fn lz4_header_checksums_of_old_clients_are_put_right() {
    let mut packed = compress(Codec::Lz4, b"an old message", None).unwrap();
    let checksum = if packed[4] & 0b1000 != 0 { 14 } else { 6 };
    packed[checksum] ^= 0x55;
    assert!(decompress(Codec::Lz4, &packed, 100).is_err());
    assert_eq!(decompress_legacy_lz4(&packed, 100).unwrap(), b"an old message");
    assert!(decompress_legacy_lz4(&[0; 40], 100).is_err());
    assert_eq!(decompress_legacy_lz4(&[], 0), decompress(Codec::Lz4, &[], 0));
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(300))]
    #[test]
    fn hostile_input_neither_panics_nor_passes_the_cap(
        codec in 0_usize..5, at in 0_usize..400, value: u8, cut in 0_usize..400, cap in 0_usize..2000,
    ) {
        let codec = Codec::ALL[codec];
        let mut packed = compress(codec, &b"some text, some text, and more of it. ".repeat(20), None).unwrap();
        packed.truncate(packed.len().saturating_sub(cut));
        if let Some(byte) = packed.get_mut(at) {
            *byte = value;
        }
        if let Ok(plain) = decompress(codec, &packed, cap) {
            proptest::prop_assert!(plain.len() <= cap);
        }
    }

    #[test]
    fn any_bytes_for_any_codec(codec in 0_usize..5, bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        if let Ok(plain) = decompress(Codec::ALL[codec], &bytes, 10_000) {
            proptest::prop_assert!(plain.len() <= 10_000);
        }
    }
}
