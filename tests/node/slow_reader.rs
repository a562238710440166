//! A lowering that a slow reader holds back.
use crate::client::Client;
use crate::support::node::Node;
use crate::{DAY_MS, metrics, now_ms, records, topics_are_ready};

/// A Topic with 1,000 records that its reader has not read, and an edit of its retention from three days to one that would take them.
#[derive(Debug)]
pub struct HeldEdit {
    topic: &'static str,
    reader: &'static str,
    /// The Topic's message about it.
    told: String,
}

impl HeldEdit {
    pub fn new(node: &Node, client: &mut Client, topic: &'static str, reader: &'static str) -> Self {
        let manifest = |retention: &str| {
            format!(
                "apiVersion: tidemark.dev/v1alpha1\nkind: Topic\nmetadata: {{name: {topic}, namespace: tidemark}}\n\
                 spec: {{partitions: 1, config: {{retention.ms: {retention}, segment.ms: 1h}}, readers: {{headroom: 10m}}}}\n"
            )
        };
        node.apply(&manifest("3d"));
        topics_are_ready(node);
        let two_days_ago = now_ms() - 2 * DAY_MS;
        client.produce(topic, two_days_ago, &records("read", 10));
        client.catch_up(reader, topic, 10);
        client.produce(topic, two_days_ago, &records("unread", 1000));
        client.produce(topic, now_ms(), &records("new", 5));

        node.apply(&manifest("1d"));
        node.shell(&format!(
            "kubectl -n tidemark wait --for=condition=Stalled topic/{topic} --timeout=3m"
        ));
        let mut held = Self {
            topic,
            reader,
            told: String::new(),
        };
        held.told = held.message(node);
        let event = format!("group {reader}, partition 0: at offset 10");
        assert!(held.told.contains(&event), "{}", held.told);
        node.eventually(
            "the event that says what was refused",
            &["-n", "tidemark", "get", "events.events.k8s.io"],
            |events| events.contains(&event) && events.contains("1000 records"),
        );
        held.waits(node);
        held
    }

    fn message(&self, node: &Node) -> String {
        let message = "jsonpath={.status.conditions[?(@.type==\"Ready\")].message}";
        node.kubectl(["-n", "tidemark", "get", "topic", self.topic, "-o", message])
            .run()
    }

    /// It is held back as it was from the first: the settings before it are in force, the reader is where it was, every record is there.
    pub fn waits(&self, node: &Node) {
        let (topic, reader) = (self.topic, self.reader);
        let row = [topic, "1", "3d", "unlimited", "False", "SlowReader", reader];
        node.eventually(
            "the Topic to tell who holds it back",
            &["-n", "tidemark", "get", "topics"],
            |shown| {
                let line = shown.lines().find(|line| line.starts_with(topic));
                line.is_some_and(|line| line.split_whitespace().take(7).eq(row))
            },
        );
        assert_eq!(self.message(node), self.told);
        for line in [
            "pending_changes 1".to_owned(),
            format!("group_committed_offset{{group=\"{reader}\",topic=\"{topic}\",partition=\"0\"}} 10"),
            format!("log_start_offset{{topic=\"{topic}\",partition=\"0\"}} 0"),
            format!("log_end_offset{{topic=\"{topic}\",partition=\"0\"}} 1015"),
        ] {
            metrics(node, "/engine/metrics", &line, |text| {
                text.lines().any(|found| found == line)
            });
        }
    }

    /// The reader catches up, and so it goes in.
    pub fn goes_in(self, node: &Node, client: &mut Client) {
        let Self { topic, reader, .. } = self;
        client.catch_up(reader, topic, 1005);
        node.shell(&format!(
            "kubectl -n tidemark wait --for=condition=Ready topic/{topic} --timeout=3m"
        ));
        let shown = node.shell(&format!("kubectl -n tidemark get topic {topic}"));
        assert!(shown.contains("1d"), "{shown}");
    }
}
