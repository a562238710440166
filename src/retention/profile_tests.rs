use super::*;

fn facts(base_offset: i64, size_bytes: i64, largest_timestamp: i64) -> SegmentFacts {
    SegmentFacts {
        base_offset,
        size_bytes,
        largest_timestamp,
        modified_ms: 0,
        without_future: None,
    }
}

#[test]
fn a_missing_timestamp_falls_back_to_the_modified_time_but_zero_does_not() {
    let at = |largest_timestamp| {
        SegmentFacts {
            base_offset: 0,
            size_bytes: 1,
            largest_timestamp,
            modified_ms: 77,
            without_future: None,
        }
        .time_ms()
    };
    assert_eq!((at(-1), at(i64::MIN), at(0), at(5)), (77, 77, 0, 5));
}

#[test]
fn every_question_is_answered_as_by_a_walk_through_pushes_pops_and_truncations() {
    // A fixed linear congruence stands in for chance: the run is the same everywhere.
    let mut state = 7_u64;
    let mut next = move |bound: i64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((state >> 33) % u64::try_from(bound).unwrap()).unwrap()
    };
    let mut profile = SegmentProfile::new();
    let mut model: Vec<SegmentFacts> = Vec::new();
    for _ in 0..4_000 {
        match next(8) {
            0..=3 => {
                let base = model.last().map_or(0, |last| last.base_offset + 1 + next(9));
                let new = facts(base, next(50), next(1_000) - 1);
                profile.push(new);
                model.push(new);
            }
            4 => {
                if let Some(last) = model.last_mut() {
                    *last = facts(last.base_offset, last.size_bytes + next(10), next(1_000));
                    profile.set_active(*last);
                }
            }
            5 => {
                let count = usize::try_from(next(4)).unwrap().min(model.len());
                profile.pop_front(count);
                model.drain(..count);
            }
            6 if next(6) == 0 => {
                let keep = model.len().saturating_sub(usize::try_from(next(3)).unwrap());
                profile.truncate(keep);
                model.truncate(keep);
            }
            _ => {}
        }
        assert_eq!(profile.iter().copied().collect::<Vec<_>>(), model);
        assert_eq!(
            profile.total_bytes(),
            model.iter().map(|s| s.size_bytes).sum::<i64>()
        );
        if model.is_empty() {
            continue;
        }
        let from = usize::try_from(next(i64::try_from(model.len()).unwrap())).unwrap();
        let threshold = next(1_000);
        let walk = (from..model.len())
            .find(|i| model[*i].time_ms() >= threshold)
            .unwrap_or(model.len());
        assert_eq!(
            profile.first_time(from, model.len(), |time| time >= threshold),
            walk
        );
        assert_eq!(
            profile.latest_time_ms(from, model.len() - 1),
            model[from..].iter().map(SegmentFacts::time_ms).max()
        );
        let bytes = next(400);
        let (mut end, mut sum) = (from, 0);
        while end < model.len() && sum + model[end].size_bytes <= bytes {
            sum += model[end].size_bytes;
            end += 1;
        }
        assert_eq!(profile.run_within_bytes(from, model.len(), bytes), end);
        let offset = model[from].base_offset + next(3);
        assert_eq!(
            profile.position_of(offset),
            model.iter().rposition(|s| s.base_offset <= offset)
        );
    }
    assert!(!model.is_empty(), "the run must end with something to look at");
}

#[test]
fn a_roll_onto_the_same_base_replaces_the_active_segment() {
    let mut profile: SegmentProfile = [facts(0, 10, 1), facts(5, 0, -1)].into_iter().collect();
    profile.push(facts(5, 7, 9));
    assert_eq!(
        (profile.len(), profile.total_bytes(), profile.latest_time_ms(0, 1)),
        (2, 17, Some(9))
    );
}
