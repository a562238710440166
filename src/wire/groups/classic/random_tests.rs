//! Members of a classic group that come, go, miss answers, are killed and come back, in any order.
use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use crate::wire::error_code::ErrorCode;
use crate::wire::groups::harness::*;
use crate::wire::groups::messages::*;
use crate::wire::groups::output::Token;

const GROUP: &str = "group";
const MEMBERS: usize = 4;

/// What a client is doing.
#[derive(Debug)]
enum Doing {
    Joining(Token),
    /// Waiting for the assignment.
    Syncing(Token),
    Working,
}

#[derive(Debug)]
struct Member {
    id: String,
    instance: Option<String>,
    generation: i32,
    assignment: Bytes,
    doing: Doing,
    topics: Vec<&'static str>,
}

#[derive(Debug, Clone)]
enum Step {
    Start(usize),
    /// Lets a client look for its answer, and do what comes next.
    Go(usize),
    /// The answer is lost; the client asks again.
    Retry(usize),
    Beat(usize),
    Commit(usize),
    Leave(usize),
    Vanish(usize),
    Resubscribe(usize),
    Wait(i64),
    Restart,
}

fn any_step() -> impl Strategy<Value = Step> {
    let member = || 0..MEMBERS;
    prop_oneof![
        3 => member().prop_map(Step::Start),
        8 => member().prop_map(Step::Go),
        2 => member().prop_map(Step::Retry),
        3 => member().prop_map(Step::Beat),
        2 => member().prop_map(Step::Commit),
        1 => member().prop_map(Step::Leave),
        1 => member().prop_map(Step::Vanish),
        1 => member().prop_map(Step::Resubscribe),
        4 => (1..12_000i64).prop_map(Step::Wait),
        1 => Just(Step::Restart),
    ]
}

struct Clients {
    harness: Harness,
    members: BTreeMap<usize, Member>,
    /// The highest generation anybody was told.
    generation: i32,
    /// Generation -> its leader.
    leaders: BTreeMap<i32, String>,
}

impl Clients {
    fn request(member: &Member) -> JoinRequest {
        JoinRequest {
            member_id: member.id.clone(),
            instance_id: member.instance.clone(),
            // A static member that lost its id must not be asked for one.
            requires_known_member_id: true,
            rebalance_timeout_ms: 60_000,
            protocols: vec![OfferedProtocol {
                name: "range".to_owned(),
                metadata: subscription(&member.topics),
            }],
            ..join_request(GROUP)
        }
    }

    fn start(&mut self, index: usize) {
        if self.members.contains_key(&index) {
            return;
        }
        let mut member = Member {
            id: String::new(),
            // Every other client is a static member.
            instance: (index % 2 == 1).then(|| format!("instance-{index}")),
            generation: -1,
            assignment: Bytes::new(),
            doing: Doing::Working,
            topics: vec!["orders"],
        };
        member.doing = Doing::Joining(self.harness.join(Self::request(&member)));
        self.members.insert(index, member);
    }

    fn rejoin(&mut self, index: usize) {
        if let Some(member) = self.members.get_mut(&index) {
            let token = self.harness.join(Self::request(member));
            member.doing = Doing::Joining(token);
        }
    }

    fn go(&mut self, index: usize) {
        let Some(member) = self.members.get(&index) else {
            return;
        };
        match member.doing {
            Doing::Joining(token) => {
                if let Some(reply) = self.harness.joined(token) {
                    self.joined(index, reply);
                }
            }
            Doing::Syncing(token) => {
                if let Some(reply) = self.harness.synced(token) {
                    self.synced(index, reply);
                }
            }
            Doing::Working => self.beat(index),
        }
    }

    fn joined(&mut self, index: usize, reply: JoinReply) {
        let Some(member) = self.members.get_mut(&index) else {
            return;
        };
        match reply.error {
            None => {
                assert!(reply.generation_id >= 1);
                self.generation = self.generation.max(reply.generation_id);
                member.id = reply.member_id.clone();
                member.generation = reply.generation_id;
                let leads = reply.leader == reply.member_id;
                assert_eq!(
                    leads,
                    !reply.members.is_empty(),
                    "only the leader gets the members"
                );
                if leads {
                    // A static leader may come back under another id; its generation keeps one leader at a time.
                    self.leaders.insert(reply.generation_id, reply.member_id.clone());
                }
                let assignments = if leads && !reply.skip_assignment {
                    let members = reply.members.iter();
                    members
                        .map(|joined| {
                            let word = format!("{} in {}", joined.member_id, reply.generation_id);
                            (joined.member_id.clone(), Bytes::from(word))
                        })
                        .collect()
                } else {
                    Vec::new()
                };
                let request = SyncRequest {
                    instance_id: member.instance.clone(),
                    ..sync_request(GROUP, &reply.member_id, reply.generation_id, assignments)
                };
                let token = self.harness.sync(request);
                if let Some(member) = self.members.get_mut(&index) {
                    member.doing = Doing::Syncing(token);
                }
            }
            Some(ErrorCode::MemberIdRequired) => {
                assert!(member.instance.is_none(), "static members are exempt");
                member.id = reply.member_id;
                self.rejoin(index);
            }
            Some(ErrorCode::UnknownMemberId) => {
                member.id.clear();
                self.rejoin(index);
            }
            Some(ErrorCode::RebalanceInProgress) => self.rejoin(index),
            // Its place was taken by its next self.
            Some(ErrorCode::FencedInstanceId) => {
                self.members.remove(&index);
            }
            Some(other) => panic!("join was refused with {other}"),
        }
    }

    fn synced(&mut self, index: usize, reply: SyncReply) {
        let Some(member) = self.members.get_mut(&index) else {
            return;
        };
        match reply.error {
            None => {
                // Every member gets what the leader of its generation gave it, whole.
                let word = String::from_utf8(reply.assignment.to_vec()).unwrap();
                let generation = word.rsplit(' ').next().unwrap();
                assert_eq!(generation, member.generation.to_string(), "{word}");
                if member.instance.is_none() {
                    assert!(word.starts_with(&member.id), "{word} for {}", member.id);
                }
                member.assignment = reply.assignment;
                member.doing = Doing::Working;
            }
            Some(error) => self.refused(index, error),
        }
    }

    fn beat(&mut self, index: usize) {
        let Some(member) = self.members.get(&index) else {
            return;
        };
        if matches!(member.doing, Doing::Joining(_)) {
            return;
        }
        let request = HeartbeatRequest {
            group_id: GROUP.to_owned(),
            generation_id: member.generation,
            member_id: member.id.clone(),
            instance_id: member.instance.clone(),
        };
        let result = self.harness.coordinator.heartbeat(self.harness.now, &request);
        let working = matches!(member.doing, Doing::Working);
        if let Err(error) = result
            && working
        {
            self.refused(index, error);
        }
    }

    fn commit(&mut self, index: usize) {
        let Some(member) = self.members.get(&index) else {
            return;
        };
        if !matches!(member.doing, Doing::Working) {
            return;
        }
        let request = CommitRequest {
            generation_or_epoch: member.generation,
            member_id: member.id.clone(),
            instance_id: member.instance.clone(),
            ..commit_request(GROUP, "orders", 0, i64::from(member.generation))
        };
        if let Some(error) = self.harness.commit(request) {
            self.refused(index, error);
        }
    }

    fn refused(&mut self, index: usize, error: ErrorCode) {
        let Some(member) = self.members.get_mut(&index) else {
            return;
        };
        match error {
            ErrorCode::UnknownMemberId => {
                member.id.clear();
                self.rejoin(index);
            }
            ErrorCode::IllegalGeneration | ErrorCode::RebalanceInProgress => self.rejoin(index),
            ErrorCode::FencedInstanceId => {
                self.members.remove(&index);
            }
            other => panic!("refused with {other}"),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Start(index) => self.start(index),
            Step::Go(index) => self.go(index),
            Step::Retry(index) => {
                let Some(member) = self.members.get(&index) else {
                    return;
                };
                match member.doing {
                    // It does not know the id it was given on the way.
                    Doing::Joining(_) => self.rejoin(index),
                    Doing::Syncing(_) => {
                        let request = SyncRequest {
                            instance_id: member.instance.clone(),
                            ..sync_request(GROUP, &member.id, member.generation, Vec::new())
                        };
                        // A leader that asks again without its assignment would give everybody nothing.
                        if self.leaders.get(&member.generation) == Some(&member.id) {
                            self.rejoin(index);
                        } else {
                            let token = self.harness.sync(request);
                            if let Some(member) = self.members.get_mut(&index) {
                                member.doing = Doing::Syncing(token);
                            }
                        }
                    }
                    Doing::Working => {}
                }
            }
            Step::Beat(index) => self.beat(index),
            Step::Commit(index) => self.commit(index),
            Step::Leave(index) => {
                if let Some(member) = self.members.remove(&index) {
                    let leaving = LeavingMember {
                        member_id: member.id,
                        instance_id: member.instance,
                        reason: None,
                    };
                    let _ = self.harness.leave_as(GROUP, &[leaving]);
                }
            }
            Step::Vanish(index) => {
                self.members.remove(&index);
            }
            Step::Resubscribe(index) => {
                if let Some(member) = self.members.get_mut(&index)
                    && matches!(member.doing, Doing::Working)
                {
                    member.topics = vec!["orders", "more"];
                    self.rejoin(index);
                }
            }
            Step::Wait(ms) => self.harness.advance(ms),
            Step::Restart => {
                self.harness = self.harness.restarted();
                // Connections are gone; clients ask again what they were waiting for.
                let waiting: Vec<usize> = self
                    .members
                    .iter()
                    .filter(|(_, member)| !matches!(member.doing, Doing::Working))
                    .map(|(index, _)| *index)
                    .collect();
                for index in waiting {
                    self.rejoin(index);
                }
                // Generations that nobody finished may be given out again.
                self.generation = 0;
                self.leaders.clear();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn nobody_is_stuck_and_every_generation_is_whole(steps in prop::collection::vec(any_step(), 1..80)) {
        let mut clients = Clients {
            harness: Harness::default(),
            members: BTreeMap::new(),
            generation: 0,
            leaders: BTreeMap::new(),
        };
        let mut kept = 0;
        for step in steps {
            let restarts = matches!(step, Step::Restart);
            clients.step(step);
            let mut snapshots = clients.harness.kept.iter().filter_map(|record| match record {
                crate::wire::groups::record::Record::Group {
                    snapshot: crate::wire::groups::record::GroupSnapshot::Classic(group), ..
                } => Some(group.generation),
                _ => None,
            });
            let last = snapshots.next_back().unwrap_or(0);
            prop_assert!(restarts || last >= kept, "the generation went from {} back to {}", kept, last);
            kept = last;
        }
        // Everybody that is left goes on for a while; whoever vanished is noticed.
        for _ in 0..200 {
            clients.harness.advance(3_000);
            for index in 0..MEMBERS {
                clients.step(Step::Go(index));
            }
        }
        if !clients.members.is_empty() {
            prop_assert_eq!(clients.harness.state(GROUP), Some("Stable"));
            let generation = clients.members.values().next().map(|member| member.generation);
            for member in clients.members.values() {
                prop_assert!(matches!(member.doing, Doing::Working), "{:?}", member);
                prop_assert_eq!(Some(member.generation), generation);
            }
            let described = clients.harness.coordinator.describe(GROUP).unwrap();
            prop_assert_eq!(described.members.len(), clients.members.len());
        } else {
            prop_assert!(clients.harness.state(GROUP).is_none_or(|state| state == "Empty"));
        }
        prop_assert_eq!(clients.harness.coordinator.next_deadline().is_some(), !clients.members.is_empty());
    }
}
