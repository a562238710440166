//! The same random scripts on Apache Kafka and on us: log starts and ends, segments on disk, list-offset answers, config answers and error
//! codes must be equal, over passes and restarts. What may differ is in `differences.rs`.
//!
//! All scripts go in step, each on a topic of its own. Kafka's passes come by themselves: a phase first does what no pass can disturb, then makes
//! what is to be deleted, and canaries tell when whole passes have gone over everything. `TIDEMARK_SEED` and `TIDEMARK_SCRIPTS` say which and how many,
//! `TIDEMARK_SCRIPT` runs one of them alone.
use crate::differences::{self, is_wanted};
use crate::pair::Random;
use crate::script::{AHEAD, Batch, Phase, Script, Step};
use crate::script_side::Side;
use crate::support::kafka::Kafka;
use crate::support::temp::TempDir;
use crate::support::tidemark::Tidemark;
use crate::support::wait::PATIENCE;
use tidemark::log::compression::Codec;
use tidemark::telemetry::clock::{Clock, SystemClock};

const SCRIPTS: usize = 100;
const PHASES: usize = 4;
/// Phases that a restart comes after.
const RESTARTS: [usize; 2] = [0, 2];
/// Passes waited for in a phase: two until a whole one is over, a third for the limits to be off.
const CANARIES: usize = 3;
/// Differences that are printed.
const PRINTED: usize = 12;

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

struct Run {
    seed: u64,
    topics: Vec<(String, Script)>,
    /// For each script what was done, with the first difference last.
    done: Vec<Vec<String>>,
    differs: Vec<bool>,
    compared: usize,
}

impl Run {
    /// Runs `steps` of each script on both; both go their own pace.
    async fn run(&mut self, sides: &mut (Side, Side), phase: usize, steps: impl Fn(&Script) -> Vec<Step>) {
        let (kafka, ours) = sides;
        let all: Vec<Vec<Step>> = self.topics.iter().map(|(_, script)| steps(script)).collect();
        let run = async |side: &mut Side| {
            let mut answers = Vec::new();
            for ((topic, _), steps) in self.topics.iter().zip(&all) {
                for step in steps {
                    answers.push(side.run(topic, step).await);
                }
            }
            answers
        };
        let (kafka, ours) = tokio::join!(run(kafka), run(ours));
        let mut answers = kafka.into_iter().zip(ours);
        for (script, steps) in all.iter().enumerate() {
            for step in steps {
                let (kafka, ours) = answers.next().unwrap();
                self.compare(script, phase, step, &format!("{step:?}"), &kafka, &ours);
            }
        }
    }

    fn compare(&mut self, script: usize, phase: usize, step: &Step, what: &str, kafka: &str, ours: &str) {
        self.compared += 1;
        if self.differs[script] {
            return;
        }
        let brief = kafka.lines().next().unwrap_or_default();
        self.done[script].push(format!("{phase}: {what}\n      {brief}"));
        if kafka == ours || is_wanted(step, kafka, ours) {
            return;
        }
        let only = |text: &str, other: &str| -> String {
            let lines = text.lines().filter(|line| !other.lines().any(|own| own == *line));
            lines.collect::<Vec<_>>().join("\n         ")
        };
        self.done[script].push(format!(
            "  Kafka: {}\n  ours:  {}",
            only(kafka, ours),
            only(ours, kafka)
        ));
        self.differs[script] = true;
    }

    fn compare_segments(&mut self, sides: &(Side, Side), phase: usize, after_pass: bool) {
        for script in 0..self.topics.len() {
            let (topic, partitions) = (self.topics[script].0.clone(), self.topics[script].1.partitions);
            for partition in 0..partitions {
                let kafka = sides.0.segments(&topic, partition);
                let mut ours = sides.1.segments(&topic, partition);
                if !after_pass {
                    differences::drop_what_passes_took(&kafka, &mut ours);
                }
                let what = format!("segments of {partition}");
                let (kafka, ours) = (format!("{kafka:?}"), format!("{ours:?}"));
                self.compare(script, phase, &Step::Nowhere(0), &what, &kafka, &ours);
            }
        }
    }

    /// The limits of `phase` for the topics that have any.
    fn limits(&self, phase: usize) -> Vec<(String, Vec<(&'static str, String)>)> {
        let limits = self
            .topics
            .iter()
            .map(|(topic, script)| (topic.clone(), script.phases[phase].limits.clone()));
        limits.filter(|(_, limits)| !limits.is_empty()).collect()
    }

    fn finish(self) {
        let differing: Vec<usize> = (0..self.topics.len())
            .filter(|script| self.differs[*script])
            .collect();
        let shown: Vec<String> = differing
            .iter()
            .take(PRINTED)
            .map(|script| {
                let done = &self.done[*script];
                // What led there concerns the same topic; of it the end is shown.
                let first = done.len().saturating_sub(8);
                let topic = &self.topics[*script];
                format!(
                    "{} ({} partitions, {:?}) after {} steps:\n    {}",
                    topic.0,
                    topic.1.partitions,
                    topic.1.settings,
                    done.len() - 1,
                    done[first..].join("\n    ")
                )
            })
            .collect();
        let seed = self.seed;
        println!(
            "TIDEMARK_SEED={seed}: {} scripts, {} answers compared",
            self.topics.len(),
            self.compared
        );
        assert!(
            differing.is_empty(),
            "TIDEMARK_SEED={seed}: {} of {} scripts differ; one alone with TIDEMARK_SCRIPT=NUMBER\n{}",
            differing.len(),
            self.topics.len(),
            shown.join("\n")
        );
    }
}

/// Waits until a pass has deleted the canary.
async fn pass(kafka: &mut Side, canary: &str) {
    kafka
        .set(&[(canary.to_owned(), vec![("retention.bytes", "0".to_owned())])])
        .await;
    let first = Step::ListOffsets {
        version: 7,
        partition: 0,
        time: crate::script::Time::Special(-2),
        committed: false,
        epoch: crate::script::Epoch::None,
    };
    let deadline = std::time::Instant::now() + PATIENCE;
    while !kafka.run(canary, &first).await.starts_with("0 offset 1 ") {
        assert!(
            std::time::Instant::now() < deadline,
            "no pass came by for {canary}"
        );
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

fn canaries() -> Vec<(String, Script)> {
    let names = (0..PHASES * CANARIES).map(|number| format!("canary-{number}"));
    let script = Script {
        partitions: 1,
        settings: Vec::new(),
        phases: Vec::new(),
    };
    names.map(|name| (name, script.clone())).collect()
}

#[test]
fn scripts_run_as_on_kafka() {
    let seed = from_environment("TIDEMARK_SEED").unwrap_or(20_261_130);
    let number = from_environment("TIDEMARK_SCRIPTS").map_or(SCRIPTS, |number| number as usize);
    let alone = from_environment("TIDEMARK_SCRIPT").map(|script| script as usize);
    println!("TIDEMARK_SEED={seed}");
    let topics: Vec<(String, Script)> = (0..number)
        .map(|script| {
            let mut random = Random(seed.wrapping_add(script as u64 * 0x1_0000_0001));
            (format!("script-{script}"), Script::random(&mut random, PHASES))
        })
        .enumerate()
        .filter(|(script, _)| alone.is_none_or(|alone| alone == *script))
        .map(|(_, topic)| topic)
        .collect();
    let base = SystemClock::new().wall_ms() + AHEAD;
    let mut broker = Kafka::start(&[
        ("log.retention.check.interval.ms", "300"),
        ("log.retention.ms", "-1"),
        ("log.index.interval.bytes", "1000"),
        ("message.max.bytes", "600000"),
    ]);
    let home = TempDir::new("scripts");
    let mut engine = Tidemark::engine(
        home.path(),
        &[
            "--kafka-exact",
            "--check-interval",
            "10h",
            "--default",
            "retention.ms=-1",
            "--default",
            "index.interval.bytes=1000",
            "--default",
            "max.message.bytes=600000",
        ],
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let canaries = canaries();
    let everything: Vec<(String, i32)> = topics
        .iter()
        .chain(&canaries)
        .map(|(topic, script)| (topic.clone(), script.partitions))
        .collect();
    let mut sides = runtime.block_on(async {
        let mut kafka = Side::new(broker.bootstrap(), broker.logs(), base).await;
        let mut ours = Side::new(engine.bootstrap(), &engine.data().join("logs"), base).await;
        for side in [&mut kafka, &mut ours] {
            let all: Vec<(String, &Script)> = topics
                .iter()
                .chain(&canaries)
                .map(|(topic, script)| (topic.clone(), script))
                .collect();
            side.create(&all).await;
            side.started(&everything).await;
        }
        let record = Step::Produce {
            version: 9,
            acks: 1,
            partition: 0,
            batch: Batch {
                codec: Codec::ALL[0],
                ages: vec![Some(5)],
                bytes: 1,
                producer: None,
                flaw: None,
            },
        };
        for (canary, _) in &canaries {
            assert!(kafka.run(canary, &record).await.starts_with("0 base 0"));
        }
        (kafka, ours)
    });
    let mut run = Run {
        seed,
        done: vec![Vec::new(); topics.len()],
        differs: vec![false; topics.len()],
        topics,
        compared: 0,
    };
    for phase in 0..PHASES {
        let part =
            |pick: fn(&Phase) -> &Vec<Step>| move |script: &Script| pick(&script.phases[phase]).clone();
        let canary = |nth: usize| canaries[phase * CANARIES + nth].0.as_str();
        runtime.block_on(async {
            run.run(&mut sides, phase, part(|phase| &phase.steps)).await;
            run.compare_segments(&sides, phase, false);
            run.run(&mut sides, phase, part(|phase| &phase.changes)).await;
            let limits = run.limits(phase);
            sides.0.set(&limits).await;
            sides.1.set(&limits).await;
            pass(&mut sides.0, canary(0)).await;
            pass(&mut sides.0, canary(1)).await;
        });
        engine.pass();
        runtime.block_on(async {
            run.run(&mut sides, phase, Script::look).await;
            run.compare_segments(&sides, phase, true);
            let mut limits = run.limits(phase);
            for (_, limits) in &mut limits {
                *limits = ["retention.ms", "retention.bytes"]
                    .map(|key| (key, "-1".to_owned()))
                    .to_vec();
            }
            sides.0.set(&limits).await;
            sides.1.set(&limits).await;
            pass(&mut sides.0, canary(2)).await;
        });
        if RESTARTS.contains(&phase) {
            broker.stop();
            assert!(engine.stop().success());
            broker.start_again();
            engine.start_again();
            runtime.block_on(async {
                sides.0.started(&everything).await;
                sides.1.started(&everything).await;
                run.run(&mut sides, phase, Script::look).await;
            });
            run.compare_segments(&sides, phase, true);
        }
    }
    run.finish();
}
