use super::*;

#[test]
fn durations_are_exact_milliseconds() {
    for (text, ms) in [
        ("0", 0),
        ("7000", 7_000),
        (" 7000 ", 7_000),
        ("+7000", 7_000),
        ("007000", 7_000),
        ("-1", -1),
        ("500ms", 500),
        ("90s", 90_000),
        ("5m", 300_000),
        ("36h", 129_600_000),
        ("7d", 604_800_000),
        ("2w", 1_209_600_000),
        ("9223372036854775807", i64::MAX),
        ("-9223372036854775808", i64::MIN),
        ("106751991167d", 106_751_991_167 * 86_400_000),
    ] {
        assert_eq!(parse_duration_ms(text), Ok(ms), "{text:?}");
    }
}

#[test]
fn sizes_are_exact_bytes() {
    for (text, bytes) in [
        ("1048576", 1 << 20),
        ("10k", 10_000),
        ("1G", 1_000_000_000),
        ("256Mi", 256 << 20),
        ("2Gi", 2 << 30),
        ("9007199254740993", 9_007_199_254_740_993),
        ("8191Pi", 8191 << 50),
        ("-1", -1),
    ] {
        assert_eq!(parse_bytes(text), Ok(bytes), "{text:?}");
    }
}

#[test]
fn what_cannot_be_exact_is_refused_by_name() {
    let refused: &[(&str, &str)] = &[
        ("", "empty"),
        ("6.048e+08", "scientific"),
        ("2.16e+07", "scientific"),
        ("1e3", "scientific"),
        ("1E-3", "scientific"),
        ("1.5", "fraction"),
        ("1.5d", "fraction"),
        ("1,5d", "fraction"),
        ("7days", "unknown unit \"days\""),
        ("7D", "unknown unit \"D\""),
        ("7d12h", "unknown unit \"d12h\""),
        ("7 d", "unknown unit \" d\""),
        ("d", "not a whole number"),
        ("seven", "not a whole number"),
        ("--1", "not a whole number"),
        ("-", "not a whole number"),
        ("-1d", "negative with a unit"),
        ("9223372036854775808", "more than 9223372036854775807 ms"),
        ("106751991168d", "more than 9223372036854775807 ms"),
        ("0x10", "unknown unit"),
        ("1_000", "unknown unit"),
        ("٧d", "not a whole number"),
    ];
    for (text, part) in refused {
        let error = parse_duration_ms(text).expect_err(text).to_string();
        assert!(error.contains(part), "{text:?}: {error}");
    }
    assert!(
        parse_bytes("2GiB")
            .expect_err("GiB")
            .to_string()
            .contains("unknown unit \"GiB\"")
    );
    assert!(
        parse_bytes("1E")
            .expect_err("exa")
            .to_string()
            .contains("unknown unit"),
        "1E is no number with exponent"
    );
    assert!(parse_bytes("8192Pi").is_err());
}

#[test]
fn what_is_shown_reads_back_to_the_same_value() {
    for ms in [
        0,
        1,
        999,
        1_000,
        1_500,
        60_000,
        5_400_000,
        86_400_000,
        604_800_000,
        6_048_000_000,
        i64::MAX,
    ] {
        assert_eq!(parse_duration_ms(&show_duration_ms(ms)), Ok(ms));
    }
    for bytes in [0, 1, 1_000, 1_024, 1_048_576, 2 << 30, 1_500_000_000, i64::MAX] {
        assert_eq!(parse_bytes(&show_bytes(bytes)), Ok(bytes));
    }
    assert_eq!(show_duration_ms(604_800_000), "7d");
    assert_eq!(show_duration_ms(6_048_000_000), "70d");
    assert_eq!(show_bytes(1_073_741_824), "1Gi");
    assert_eq!(show_bytes(-1), "unlimited");
    assert_eq!(about_bytes(1_503_238_553), "1.3 GiB");
    assert_eq!(about_bytes(512), "512 B");
}

#[test]
fn a_duration_for_people_has_at_most_two_units() {
    for (ms, shown) in [
        (-1, "0s"),
        (0, "0s"),
        (59_999, "59s"),
        (60_000, "1m"),
        (61_000, "1m 1s"),
        (3_600_000, "1h"),
        (3_659_000, "1h"),
        (273_600_000, "3d 4h"),
        (86_400_000 + 60_000, "1d"),
        (i64::MAX, "106751991167d 7h"),
    ] {
        assert_eq!(about_duration_ms(ms), shown, "{ms}");
    }
}
