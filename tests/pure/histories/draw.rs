//! Draws what happens in a history.
use tidemark::resource::contract::{IgnoredReader, OnLoss, ReadersPolicy, WhenNone};
use tidemark::retention::Rules;

use super::CLIENTS;
use crate::random::Random;
use crate::world::{Action, Crash, Stamp, To};

pub fn some_rules(random: &mut Random) -> Rules {
    Rules {
        delete: !random.one_in(15),
        retention_ms: random.pick(&[-1, 0, 50, 200, 500, 1_000]),
        retention_bytes: random.pick(&[-1, -1, -1, 0, 120, 300, 600]),
        segment_ms: random.pick(&[100, 400, 100_000]),
        segment_bytes: random.pick(&[100, 200, 100_000]),
        ignore_ahead_ms: -1,
    }
}

fn some_policy(random: &mut Random) -> ReadersPolicy {
    let ignore = |group: &str| IgnoredReader {
        group: group.to_owned(),
        reason: String::new(),
    };
    ReadersPolicy {
        on_loss: random.pick(&[
            OnLoss::Refuse,
            OnLoss::Refuse,
            OnLoss::Clamp,
            OnLoss::Clamp,
            OnLoss::Allow,
        ]),
        headroom_ms: None,
        when_none: random.pick(&[WhenNone::Allow, WhenNone::Refuse]),
        required: if random.one_in(3) {
            vec!["batch".into()]
        } else {
            Vec::new()
        },
        ignored: match random.between(0, 6) {
            0 => vec![ignore("scratch-*")],
            1 => vec![ignore("billing"), ignore("bat*")],
            _ => Vec::new(),
        },
    }
}

pub fn some_action(random: &mut Random) -> Action {
    let (partition, client) = (random.index(3), random.index(CLIENTS.len()));
    match random.between(0, 100) {
        0..=27 => Action::Append {
            partition,
            count: random.index(4) + 1,
            timestamp: match random.between(0, 10) {
                0 => Stamp::At(-1),
                1 => Stamp::At(random.pick(&[0, 5, i64::MAX, 1_000_000_000])),
                2 => Stamp::Now(random.between(1, 400)),
                3..=4 => Stamp::Now(-random.between(1, 800)),
                _ => Stamp::Now(0),
            },
            size: random.between(1, 80),
            marker: random.one_in(6),
        },
        28..=45 => Action::Commit {
            client,
            partition,
            to: match random.between(0, 12) {
                0 => To::At(-1),
                1 => To::End(-random.between(1, 4)),
                2 => To::At(0),
                3..=5 => To::End(random.between(0, 3)),
                6 => To::By(-random.between(1, 6)),
                _ => To::By(random.between(1, 6)),
            },
        },
        46..=48 => Action::Join { client, partition },
        49..=50 => Action::Leave { client },
        51 => Action::Expire {
            after: random.between(0, 600),
        },
        52..=66 => Action::Edit {
            rules: (0..random.index(2) + 1).map(|_| some_rules(random)).collect(),
            policy: random.one_in(3).then(|| some_policy(random)),
            headroom: random.pick(&[0, 0, 60, 300]),
            crash: random.pick(&[
                Crash::No,
                Crash::No,
                Crash::No,
                Crash::BeforePersist,
                Crash::AfterPersist,
            ]),
        },
        67..=78 => Action::Pass {
            killed_after: random.one_in(6).then(|| random.index(3)),
        },
        79..=81 => Action::IdleRoll,
        82..=92 => Action::Advance {
            ms: random.between(1, 300),
        },
        93..=94 => Action::StepClock {
            ms: random.pick(&[-500, -50, 700, 100_000]),
        },
        95..=96 => Action::DeleteRecords {
            partition,
            offset: random.between(-1, 12),
        },
        97..=98 => Action::Restart,
        _ => Action::Recreate,
    }
}
