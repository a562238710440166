use super::*;
use crate::resource::contract::IgnoredReader;

#[test]
fn patterns_match_whole_names_with_stars_for_any_run() {
    for (pattern, name, expected) in [
        ("old", "old", true),
        ("old", "older", false),
        ("old*", "older", true),
        ("*old", "very-old", true),
        ("*old", "older", false),
        ("scratch-*", "scratch-", true),
        ("scratch-*", "scratch", false),
        ("a*b*c", "a-b-b-c", true),
        ("a*b*c", "a-c-b", false),
        ("a*a", "a", false),
        ("*", "", true),
        ("", "", true),
        ("", "a", false),
        ("**", "x", true),
        ("é*", "éa", true),
        ("a.b", "axb", false),
    ] {
        assert_eq!(matches(pattern, name), expected, "{pattern:?} against {name:?}");
    }
}

#[test]
fn a_position_that_cannot_be_one_on_this_log_is_unknown() {
    let of = |known| Standing::of(known, false, 5);
    assert_eq!(
        of(Known::At(5)),
        Some(Standing::At(5)),
        "the log end itself is caught up"
    );
    assert_eq!(of(Known::At(6)), Some(Standing::Unknown(Unknown::BeyondEnd(6))));
    assert_eq!(of(Known::At(-1)), Some(Standing::Unknown(Unknown::Negative(-1))));
    assert_eq!(
        of(Known::EarlierTopic(3)),
        Some(Standing::Unknown(Unknown::EarlierTopic(3)))
    );
    assert_eq!(of(Known::Assigned), Some(Standing::FromStart));
    assert_eq!((of(Known::Absent), of(Known::Expired(Some(3)))), (None, None));
}

#[test]
fn a_required_group_counts_wherever_nothing_is_known_of_it() {
    let of = |known| Standing::of(known, true, 5);
    assert_eq!(
        of(Known::Absent),
        Some(Standing::Unknown(Unknown::NeverCommitted))
    );
    assert_eq!(
        of(Known::Assigned),
        Some(Standing::FromStart),
        "it is alive and reads from the start"
    );
    assert_eq!(
        of(Known::Expired(Some(3))),
        Some(Standing::Unknown(Unknown::Expired(Some(3))))
    );
    assert_eq!(of(Known::At(3)), Some(Standing::At(3)));
}

#[test]
fn groups_are_ignored_by_name_fetchers_never_and_required_groups_stay() {
    let readers = [
        Reader::group("old", [Known::At(1)]),
        Reader::group("batch", [Known::At(2)]),
        Reader::fetcher("old", [Known::At(3)]),
    ];
    let policy = ReadersPolicy {
        required: vec!["batch".into(), "absent".into(), "absent".into()],
        ignored: vec![
            IgnoredReader {
                group: "x*".into(),
                reason: String::new(),
            },
            IgnoredReader {
                group: "*".into(),
                reason: "all".into(),
            },
        ],
        ..ReadersPolicy::default()
    };
    let counted = Counted::of(&readers, &policy);
    let all: Vec<_> = counted
        .all()
        .map(|(reader, required)| (reader.kind, &*reader.name, required))
        .collect();
    assert_eq!(
        all,
        [
            (ReaderKind::Group, "batch", true),
            (ReaderKind::Fetcher, "old", false),
            (ReaderKind::Required, "absent", true)
        ]
    );
    assert_eq!(counted.ignored, [(&readers[0], 1)]);
}
