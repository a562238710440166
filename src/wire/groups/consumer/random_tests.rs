//! Members that come, go, miss answers and vanish, in any order.
use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Join(usize),
    Beat(usize),
    /// The answer is lost on its way.
    BeatUnheard(usize),
    Leave(usize),
    Vanish(usize),
    Wait(i64),
    Grow,
    Restart,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..4usize).prop_map(Step::Join),
        6 => (0..4usize).prop_map(Step::Beat),
        2 => (0..4usize).prop_map(Step::BeatUnheard),
        1 => (0..4usize).prop_map(Step::Leave),
        1 => (0..4usize).prop_map(Step::Vanish),
        2 => (1..20_000i64).prop_map(Step::Wait),
        1 => Just(Step::Grow),
        1 => Just(Step::Restart),
    ]
}

fn beat(harness: &mut Harness, consumers: &mut BTreeMap<usize, Consumer>, index: usize, heard: bool) {
    let Some(consumer) = consumers.get_mut(&index) else {
        return;
    };
    match harness.consumer(consumer.request()) {
        Ok(reply) if heard => consumer.follow(reply),
        Ok(_) => consumer.in_full = true,
        Err(error) => {
            let expected = [ErrorCode::FencedMemberEpoch, ErrorCode::UnknownMemberId];
            assert!(expected.contains(&error.code), "{error:?}");
            // It gives everything up and joins again.
            consumers.remove(&index);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn no_partition_is_owned_twice_and_nobody_is_stuck(steps in prop::collection::vec(any_step(), 1..60)) {
        let mut harness = Harness::default();
        let mut partitions = 6;
        let mut consumers: BTreeMap<usize, Consumer> = BTreeMap::new();
        let mut epoch = 0;
        for step in steps {
            match step {
                Step::Join(index) => {
                    if let std::collections::btree_map::Entry::Vacant(place) = consumers.entry(index) {
                        place.insert(Consumer::join(&mut harness, &index.to_string()));
                    }
                }
                Step::Beat(index) => beat(&mut harness, &mut consumers, index, true),
                Step::BeatUnheard(index) => beat(&mut harness, &mut consumers, index, false),
                Step::Leave(index) => {
                    if let Some(consumer) = consumers.remove(&index) {
                        let leaving = ConsumerHeartbeatRequest { member_epoch: -1, ..consumer.request() };
                        let _ = harness.consumer(leaving);
                    }
                }
                Step::Vanish(index) => {
                    consumers.remove(&index);
                }
                Step::Wait(ms) => harness.advance(ms),
                Step::Grow => {
                    partitions += 1;
                    harness.topic("orders", 1, partitions);
                }
                Step::Restart => harness = harness.restarted(),
            }
            let described = harness.coordinator.consumer_describe(GROUP);
            if let Ok(group) = described {
                prop_assert!(group.group_epoch >= epoch && group.assignment_epoch <= group.group_epoch);
                epoch = group.group_epoch;
            }
            // What the coordinator has given out, nobody has twice.
            let readers = harness.coordinator.readers_of("orders");
            for reader in &readers {
                prop_assert!(reader.owned.iter().all(|partition| (0..partitions).contains(partition)));
            }
        }
        // Everybody that is left heartbeats; whoever vanished is noticed.
        for _ in 0..30 {
            harness.advance(5_000);
            for index in 0..4 {
                beat(&mut harness, &mut consumers, index, true);
            }
        }
        if !consumers.is_empty() {
            prop_assert_eq!(harness.state(GROUP), Some("Stable"));
            let mut owned: Vec<i32> = consumers.values().flat_map(|consumer| consumer.owned.clone()).collect();
            owned.sort_unstable();
            prop_assert_eq!(owned, (0..partitions).collect::<Vec<_>>());
        }
    }
}
