use proptest::prelude::*;

use super::*;

type Assignment = BTreeMap<Arc<str>, Partitions>;

fn topic(id: u128) -> Uuid {
    Uuid::from_u128(id)
}

fn members(subscriptions: &[(&str, &[u128])]) -> BTreeMap<Arc<str>, Subscriber> {
    subscriptions
        .iter()
        .map(|(id, topics)| {
            let subscriber = Subscriber {
                instance_id: None,
                topics: topics.iter().map(|id| topic(*id)).collect(),
            };
            (Arc::from(*id), subscriber)
        })
        .collect()
}

fn assign(
    assignor: Assignor,
    members: &BTreeMap<Arc<str>, Subscriber>,
    partitions: &[(u128, i32)],
    current: &Assignment,
) -> Assignment {
    let partitions = partitions
        .iter()
        .map(|(id, count)| (topic(*id), *count))
        .collect();
    assignor.assign(&Input {
        members,
        partitions: &partitions,
        current,
    })
}

/// A member and, by topic, its partitions.
type Shown = (String, Vec<(u128, Vec<i32>)>);

fn shown(assignment: &Assignment) -> Vec<Shown> {
    assignment
        .iter()
        .map(|(id, partitions)| {
            let partitions = partitions
                .iter()
                .map(|(topic, partitions)| (topic.as_u128(), partitions.iter().copied().collect()));
            (id.to_string(), partitions.collect())
        })
        .collect()
}

#[test]
fn a_range_is_contiguous_and_the_first_members_get_one_more() {
    let members = members(&[("a", &[1, 2]), ("b", &[1]), ("c", &[1, 2])]);
    let result = assign(Assignor::Range, &members, &[(1, 7), (2, 1)], &Assignment::new());
    assert_eq!(
        shown(&result),
        [
            ("a".to_owned(), vec![(1, vec![0, 1, 2]), (2, vec![0])]),
            ("b".to_owned(), vec![(1, vec![3, 4])]),
            ("c".to_owned(), vec![(1, vec![5, 6])]),
        ]
    );
}

#[test]
fn a_range_follows_the_instance_and_not_the_member_id() {
    let mut members = members(&[("x", &[1]), ("y", &[1])]);
    members.get_mut("x").unwrap().instance_id = Some("2".into());
    members.get_mut("y").unwrap().instance_id = Some("1".into());
    let result = assign(Assignor::Range, &members, &[(1, 2)], &Assignment::new());
    assert_eq!(result["y"][&topic(1)], BTreeSet::from([0]));
    // "x" came back as "a".
    let x = members.remove("x").unwrap();
    members.insert("a".into(), x);
    let result = assign(Assignor::Range, &members, &[(1, 2)], &result);
    assert_eq!(result["y"][&topic(1)], BTreeSet::from([0]));
    assert_eq!(result["a"][&topic(1)], BTreeSet::from([1]));
}

#[test]
fn a_newcomer_takes_only_what_evens_out() {
    let two = members(&[("a", &[1]), ("b", &[1])]);
    let before = assign(Assignor::Uniform, &two, &[(1, 6)], &Assignment::new());
    let three = members(&[("a", &[1]), ("b", &[1]), ("c", &[1])]);
    let after = assign(Assignor::Uniform, &three, &[(1, 6)], &before);
    for id in ["a", "b"] {
        assert!(after[id][&topic(1)].is_subset(&before[id][&topic(1)]));
        assert_eq!(after[id][&topic(1)].len(), 2);
    }
    assert_eq!(after["c"][&topic(1)].len(), 2);
}

#[test]
fn names_are_those_clients_ask_for() {
    assert_eq!(Assignor::named("uniform"), Some(Assignor::Uniform));
    assert_eq!(Assignor::named("range"), Some(Assignor::Range));
    assert_eq!(Assignor::named("Uniform"), None);
}

/// Members with subscriptions out of four topics.
fn any_members() -> impl Strategy<Value = BTreeMap<Arc<str>, Subscriber>> {
    prop::collection::btree_map("[a-f]", prop::collection::btree_set(1..5u128, 0..4), 0..6).prop_map(
        |members| {
            members
                .into_iter()
                .map(|(id, topics)| {
                    let subscriber = Subscriber {
                        instance_id: None,
                        topics: topics.into_iter().map(topic).collect(),
                    };
                    (Arc::from(id), subscriber)
                })
                .collect()
        },
    )
}

proptest! {
    #[test]
    fn every_partition_has_one_owner_who_subscribes(
        first in any_members(), second in any_members(), counts in prop::collection::vec(0..8i32, 4),
        range in any::<bool>(),
    ) {
        let assignor = if range { Assignor::Range } else { Assignor::Uniform };
        let partitions: Vec<(u128, i32)> = (1..5).zip(counts).collect();
        let before = assign(assignor, &first, &partitions, &Assignment::new());
        let after = assign(assignor, &second, &partitions, &before);
        prop_assert_eq!(after.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
        for (id, count) in &partitions {
            let subscribers = second.values().filter(|member| member.topics.contains(&topic(*id))).count();
            for partition in 0..*count {
                let owners: Vec<_> = after
                    .iter()
                    .filter(|(_, own)| own.get(&topic(*id)).is_some_and(|own| own.contains(&partition)))
                    .map(|(owner, _)| owner)
                    .collect();
                prop_assert_eq!(owners.len(), usize::from(subscribers > 0), "partition {} of {}", partition, id);
                for owner in owners {
                    prop_assert!(second[owner].topics.contains(&topic(*id)));
                }
            }
        }
        // Computed again it moves nothing.
        prop_assert_eq!(&assign(assignor, &second, &partitions, &after), &after);
    }

    #[test]
    fn uniform_is_even(members in any_members(), counts in prop::collection::vec(0..8i32, 4)) {
        let partitions: Vec<(u128, i32)> = (1..5).zip(counts).collect();
        let result = assign(Assignor::Uniform, &members, &partitions, &Assignment::new());
        let size = |id: &Arc<str>| result[id].values().map(BTreeSet::len).sum::<usize>();
        // Nobody has two more than somebody who could take one of them.
        for (many, own) in &result {
            for few in members.keys() {
                let could_take = own.keys().any(|topic| members[few].topics.contains(topic));
                prop_assert!(!could_take || size(many) <= size(few) + 1, "{} and {}", many, few);
            }
        }
    }
}
