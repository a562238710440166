//! Random histories of a topic: whatever happens, in whatever order, no guarded reader loses a record to a change that
//! the settings in force before it would have kept; every refusal names a record that would really go; none stays when
//! its reason is gone; and a clamp is the lowest that is safe.
//!
//! 20,000 histories in the normal run, a million with `TIDEMARK_LONG=1`. A failing one is cut down to the fewest actions
//! that still fail and printed with its seed.
mod checker;
mod draw;
mod losses;

use tidemark::resource::contract::ReaderKind;
use tidemark::retention::Rules;

use self::checker::{Checker, Seen};
use self::draw::{some_action, some_rules};
use crate::random::{Random, rounds};
use crate::world::{Action, World};

const CLIENTS: [(ReaderKind, &str); 4] = [
    (ReaderKind::Group, "billing"),
    (ReaderKind::Group, "scratch-1"),
    (ReaderKind::Group, "batch"),
    (ReaderKind::Fetcher, "billing"),
];

/// What came up in a history, or what went wrong in it.
fn run(first: Rules, partitions: usize, actions: &[Action]) -> Result<Seen, String> {
    let mut checker = Checker::new(World::new(partitions, &CLIENTS, first));
    for (position, action) in actions.iter().enumerate() {
        checker
            .step(action)
            .map_err(|error| format!("after action {position}: {error}\n{}", checker.world.describe()))?;
    }
    Ok(checker.seen)
}

/// The same failure with as few actions as leaving out one at a time gets it down to.
fn shrink(first: Rules, partitions: usize, mut actions: Vec<Action>) -> (Vec<Action>, String) {
    let mut error = run(first, partitions, &actions).err().unwrap_or_default();
    let mut position = 0;
    while position < actions.len() {
        let mut fewer = actions.clone();
        fewer.remove(position);
        match run(first, partitions, &fewer) {
            Err(same) => {
                (actions, error) = (fewer, same);
                position = 0;
            }
            Ok(_) => position += 1,
        }
    }
    (actions, error)
}

/// One random history; panics with the shortest that fails in the same way.
fn history(seed: u64) -> Seen {
    let mut random = Random::seeded(seed);
    let partitions = random.index(3) + 1;
    let first = some_rules(&mut random);
    let mut actions = Vec::new();
    for _ in 0..random.between(6, 26) {
        let action = some_action(&mut random);
        let is_edit = matches!(action, Action::Edit { .. });
        actions.push(action);
        // What a change does shows in the passes after it.
        if is_edit && random.one_in(2) {
            actions.push(Action::Advance {
                ms: random.between(1, 80),
            });
            actions.push(Action::Pass { killed_after: None });
        }
    }
    run(first, partitions, &actions).unwrap_or_else(|_| {
        let (actions, error) = shrink(first, partitions, actions);
        panic!("seed {seed}, {partitions} partitions, first {first:?}\n{actions:?}\n{error}");
    })
}

#[test]
fn no_history_costs_a_guarded_reader_a_record() {
    let seeds = rounds(20_000, 1_000_000);
    let workers = u64::try_from(std::thread::available_parallelism().map_or(1, usize::from)).unwrap();
    let parts: Vec<Seen> = std::thread::scope(|scope| {
        let worker = |first: u64| {
            let seeds = seeds.clone();
            let step = usize::try_from(workers).unwrap();
            scope.spawn(move || {
                seeds
                    .skip(usize::try_from(first).unwrap())
                    .step_by(step)
                    .map(history)
                    .fold(Seen::default(), Seen::add)
            })
        };
        let handles: Vec<_> = (0..workers).map(worker).collect();
        handles
            .into_iter()
            .map(|handle| {
                handle
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    let seen = parts.into_iter().fold(Seen::default(), Seen::add);
    println!(
        "{} histories from seed {}: {seen:?}",
        seeds.end - seeds.start,
        seeds.start
    );
    let rarest = [seen.refused, seen.clamped, seen.resumed, seen.lowered, seen.kept]
        .into_iter()
        .min();
    let histories = seeds.end - seeds.start;
    assert!(
        rarest >= Some(histories / 50) && seen.kept_in_part >= histories / 200,
        "{seen:?} in {histories} histories is too few of something"
    );
}
