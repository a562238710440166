//! Directories written here, opened by a real broker: every record is consumed from them with the same bytes, the broker's dump tool finds no
//! error, the broker appends on, and its own retention pass moves each log start to the offset that our plan had named.
//!
//! `TIDEMARK_PAIRS` sets how many random pairs of directory and settings are judged (110), `TIDEMARK_SEED` the seed that a failure prints. All pairs
//! of a round are topics of one broker. A difference is made smaller, step by step, in further rounds, and the smallest script is printed.
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tidemark::log::files::DiskFiles;
use tidemark::log::inspect::{self, Depth, PartitionReport};
use tidemark::log::names;
use tidemark::log::read::Isolation;
use tidemark::resource::settings::{Overrides, TopicSettings};
use tidemark::retention::Rules;
use tidemark::telemetry::clock::{Clock, SystemClock};

use crate::directory::{AllSeen, Client, Seen, copy, dump_tool_finds_no_error, hex, open, set_offsets};
use crate::pair::{Built, Pair, Random, build};
use crate::script::AHEAD;
use crate::support::kafka::Kafka;
use crate::support::temp::TempDir;
use crate::support::wait::{PATIENCE, eventually};

const CANARIES: [&str; 2] = ["canary-a", "canary-b"];

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number"))
    })
}

#[test]
fn random_directories_mean_the_same_to_a_broker() {
    let pairs = number("TIDEMARK_PAIRS", 110);
    let seed = number("TIDEMARK_SEED", 20_261_130);
    eprintln!("TIDEMARK_SEED={seed}");
    let mut random = Random(seed);
    let (mut judged, mut moved, mut clean) = (0, 0, true);
    while judged < pairs {
        let round: Vec<Pair> = (0..(pairs - judged).min(pairs.div_ceil(2)).min(150))
            .map(|_| Pair::random(&mut random))
            .collect();
        let verdicts = judge(&round, clean);
        let worst = round
            .iter()
            .zip(&verdicts)
            .filter_map(|(pair, verdict)| Some((pair, verdict.as_ref().err()?)));
        if let Some((pair, difference)) = worst.min_by_key(|(pair, _)| pair.steps.len()) {
            let (pair, difference) = smallest(pair.clone(), difference.clone(), clean);
            panic!(
                "{difference}\nTIDEMARK_SEED={seed}, stopped cleanly: {clean}, smallest script:\n{pair:#?}"
            );
        }
        moved += verdicts
            .iter()
            .filter(|verdict| matches!(verdict, Ok(true)))
            .count();
        judged += round.len() as u64;
        // In turns the broker believes our clean stop, and reads everything anew.
        clean = !clean;
    }
    assert!(
        moved as u64 > pairs / 10,
        "only {moved} of {pairs} passes moved a log start"
    );
}

/// Takes steps out as long as a difference stays.
fn smallest(mut pair: Pair, mut difference: String, clean: bool) -> (Pair, String) {
    for _ in 0..12 {
        let reductions = pair.reductions();
        if reductions.is_empty() {
            break;
        }
        let verdicts = judge(&reductions, clean);
        match reductions
            .into_iter()
            .zip(verdicts)
            .find_map(|(pair, verdict)| Some((pair, verdict.err()?)))
        {
            Some(smaller) => (pair, difference) = smaller,
            None => break,
        }
    }
    (pair, difference)
}

/// One pair in the broker's hands.
struct Case<'a> {
    topic: String,
    pair: &'a Pair,
    built: Built,
    /// The bytes of each `.log` file as we left them.
    files: BTreeMap<String, Vec<u8>>,
}

/// Judges every pair; answers whether its pass moved the log start, or the difference. `clean`: the broker believes our close, else it reads
/// every directory from its beginning.
fn judge(pairs: &[Pair], clean: bool) -> Vec<Result<bool, String>> {
    let mut kafka = Kafka::start(&[("log.index.size.max.bytes", "65536")]);
    let bootstrap = kafka.bootstrap().to_owned();
    let client = Client(&bootstrap);
    let topics: Vec<String> = (0..pairs.len()).map(|nth| format!("pair-{nth}")).collect();
    let unlimited: &[_] = &[("retention.ms", "-1")];
    let all = topics.iter().map(String::as_str).chain(CANARIES);
    client.create(all.map(|topic| (topic, unlimited)));
    kafka.stop();

    let logs = kafka.logs().to_owned();
    let now = SystemClock::new().wall_ms() + AHEAD;
    let cases: Vec<Case<'_>> = topics
        .into_iter()
        .zip(pairs)
        .map(|(topic, pair)| put_in(topic, pair, &logs, now))
        .collect();
    let recovery = cases
        .iter()
        .map(|case| (case.topic.clone(), clean.then_some(case.built.log_end)));
    set_offsets(
        &logs,
        names::RECOVERY_POINT_CHECKPOINT,
        &recovery.collect::<Vec<_>>(),
    );
    let starts = cases
        .iter()
        .map(|case| (case.topic.clone(), case.built.checkpointed_start));
    set_offsets(&logs, names::LOG_START_CHECKPOINT, &starts.collect::<Vec<_>>());
    if !clean {
        fs::remove_file(logs.join(names::CLEAN_SHUTDOWN)).expect("the marker of a clean stop");
    }
    dump_tool_finds_no_error(
        &cases
            .iter()
            .map(|case| kafka.partition(&case.topic, 0))
            .collect::<Vec<_>>(),
    );

    kafka.start_again();
    let mut verdicts = broker_reads(&client, &cases);
    let appended: Vec<_> = cases
        .iter()
        .filter(|case| case.pair.append_on)
        .map(|case| case.topic.as_str())
        .collect();
    let one =
        |topic: &str| json!({ "topic": topic, "records": [{ "value": hex(b"appended by the broker") }] });
    client.write(
        &appended
            .iter()
            .copied()
            .chain(CANARIES)
            .map(one)
            .collect::<Vec<_>>(),
    );
    kafka.stop();
    for (case, verdict) in cases.iter().zip(&mut verdicts) {
        if verdict.is_ok() {
            *verdict = bytes_are_the_same(case, &logs);
        }
    }

    let planned: Vec<Planned> = cases.iter().map(|case| plan(case, &logs)).collect();
    kafka.start_again();
    let settings = cases
        .iter()
        .zip(&planned)
        .map(|(case, planned)| (case.topic.clone(), planned.settings.clone()));
    client.alter(&settings.collect());
    let passed = after_whole_passes(&client, &cases);
    kafka.stop();
    verdicts
        .into_iter()
        .zip(cases.iter().zip(&planned))
        .map(|(verdict, (case, planned))| {
            verdict.and_then(|()| planned.compare(case, passed[&case.topic], &logs))
        })
        .collect()
}

/// Builds the pair's directory in place of the empty one that the broker made; the topic id stays.
fn put_in<'a>(topic: String, pair: &'a Pair, logs: &Path, now: i64) -> Case<'a> {
    let directory = logs.join(format!("{topic}-0"));
    for entry in fs::read_dir(&directory).expect("the broker's directory") {
        let path = entry.expect("an entry").path();
        if path
            .file_name()
            .is_some_and(|name| name != names::PARTITION_METADATA)
        {
            fs::remove_file(path).expect("an empty log's file");
        }
    }
    let built = build(pair, logs, &topic, now);
    let files = logs_in(&directory);
    Case {
        topic,
        pair,
        built,
        files,
    }
}

fn logs_in(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path());
    let logs = entries.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    let name = |path: &Path| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    logs.map(|path| (name(&path), fs::read(&path).expect("a log file")))
        .collect()
}

/// Offsets and every record, as the broker's consumers see them.
fn broker_reads(client: &Client<'_>, cases: &[Case<'_>]) -> Vec<Result<(), String>> {
    let topics: Vec<&str> = cases.iter().map(|case| case.topic.as_str()).collect();
    let offsets = client.offsets(&topics);
    let seen: AllSeen = client.dump(&topics, Isolation::ReadUncommitted);
    let judge = |case: &Case<'_>| {
        let (offsets, ours) = (offsets[&case.topic], (case.built.log_start, case.built.log_end));
        if offsets != ours {
            return Err(format!(
                "the broker has log start and end {offsets:?}, we {ours:?}"
            ));
        }
        let differs = |(theirs, ours): (&Seen, &Seen)| {
            (theirs != ours).then(|| format!("the broker reads {theirs:?}, we wrote {ours:?}"))
        };
        let (theirs, ours) = (&seen[&case.topic], &case.built.seen);
        match theirs.iter().zip(ours).find_map(differs) {
            Some(difference) => Err(difference),
            None if theirs.len() != ours.len() => Err(format!(
                "the broker reads {} records of {}",
                theirs.len(),
                ours.len()
            )),
            None => Ok(()),
        }
    };
    cases.iter().map(judge).collect()
}

/// The broker has left every byte of ours as it was; it may have deleted what lay below the log start, and appended to the last segment.
fn bytes_are_the_same(case: &Case<'_>, logs: &Path) -> Result<(), String> {
    let now = logs_in(&logs.join(format!("{}-0", case.topic)));
    for (name, ours) in &case.files {
        if let Some(theirs) = now.get(name)
            && !theirs.starts_with(ours)
        {
            return Err(format!(
                "the broker changed {name}: {} bytes of {} are left",
                theirs.len(),
                ours.len()
            ));
        }
    }
    let last = case.files.keys().next_back();
    if last.is_some_and(|last| !now.contains_key(last)) {
        return Err("the broker removed the active segment".to_owned());
    }
    Ok(())
}

/// What we say a pass will do.
struct Planned {
    settings: BTreeMap<String, String>,
    log_start: i64,
    new_log_start: i64,
    kept: Vec<i64>,
}

/// Plans the pass twice, by inspecting the directory and by opening a copy of it, which must agree.
fn plan(case: &Case<'_>, logs: &Path) -> Planned {
    let directory = logs.join(format!("{}-0", case.topic));
    let report = look(&directory);
    let settings = case.pair.settings(&report);
    let overrides: Overrides = settings.clone();
    let resolved = TopicSettings::resolve(&[&overrides]).expect("settings");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let now = clock.wall_ms();
    let plan = report.planned(&resolved, now);

    let scratch = TempDir::new("plan");
    copy(&directory, &scratch.join(format!("{}-0", case.topic)));
    for file in [
        names::RECOVERY_POINT_CHECKPOINT,
        names::LOG_START_CHECKPOINT,
        names::CLEAN_SHUTDOWN,
    ] {
        fs::copy(logs.join(file), scratch.join(file)).expect("a checkpoint");
    }
    let log = open(scratch.path(), &case.topic, &resolved, &clock);
    let opened = log.plan(now, &Rules::from(&resolved));
    assert_eq!(
        opened.new_log_start, plan.new_log_start,
        "{}: {report:#?}",
        case.topic
    );
    assert_eq!(
        opened.deleted(),
        plan.segments_deleted,
        "{}: {report:#?}",
        case.topic
    );

    let mut kept: Vec<i64> = plan
        .segments
        .iter()
        .filter(|segment| !segment.deleted)
        .map(|segment| segment.base_offset)
        .collect();
    if plan.rolls_active {
        kept.push(report.log_end);
    }
    Planned {
        settings,
        log_start: plan.log_start,
        new_log_start: plan.new_log_start,
        kept,
    }
}

fn look(directory: &Path) -> PartitionReport {
    let depth = Depth {
        batches: false,
        verify: true,
        ..Depth::default()
    };
    let report = inspect::inspect(&DiskFiles, directory, depth).expect("a report");
    assert!(report.is_sound(), "{report:#?}");
    report.partitions.into_iter().next().expect("one partition")
}

/// Waits until two whole retention passes have gone over all topics, and answers where the log starts are then.
///
/// A pass takes the topics in an order of its own. Once a canary whose limit is set after the settings has been deleted a pass has begun under them, and
/// once a second one has, whose limit was set after that, the first such pass has ended.
fn after_whole_passes(client: &Client<'_>, cases: &[Case<'_>]) -> BTreeMap<String, i64> {
    for canary in CANARIES {
        let limit = BTreeMap::from([("retention.bytes".to_owned(), "0".to_owned())]);
        client.alter(&BTreeMap::from([(canary.to_owned(), limit)]));
        eventually("a retention pass", PATIENCE, || {
            match client.offsets(&[canary])[canary] {
                (1, 1) => Ok(()),
                offsets => Err(format!("{offsets:?}")),
            }
        });
    }
    let topics: Vec<&str> = cases.iter().map(|case| case.topic.as_str()).collect();
    client
        .offsets(&topics)
        .into_iter()
        .map(|(topic, (start, _))| (topic, start))
        .collect()
}

impl Planned {
    fn compare(&self, case: &Case<'_>, start: i64, logs: &Path) -> Result<bool, String> {
        if start != self.new_log_start {
            return Err(format!(
                "from log start {} under {:?} the broker's pass moved to {start}, our plan said {}",
                self.log_start, self.settings, self.new_log_start
            ));
        }
        let report = look(&logs.join(format!("{}-0", case.topic)));
        let bases: Vec<i64> = report
            .segments
            .iter()
            .map(|segment| segment.base_offset)
            .collect();
        if bases != self.kept {
            return Err(format!(
                "the broker kept the segments {bases:?}, our plan {:?}",
                self.kept
            ));
        }
        Ok(start > self.log_start)
    }
}
