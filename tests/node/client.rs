//! A Kafka client (franz-go) in a pod of the cluster, run by the commands of `tests/clients/adapter.rs`.
use crate::support::node::{NODE_PATIENCE, Node};
use crate::support::wait::eventually;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout};

/// The name that clients are told to use; the cluster of the test has no DNS, so the pod knows it by an alias.
const HOST: &str = "tidemark.tidemark.svc";

pub struct Client {
    kubectl: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Client {
    #[track_caller]
    pub fn start(node: &Node) -> Self {
        let address = node
            .kubectl([
                "-n",
                "tidemark",
                "get",
                "service",
                "tidemark",
                "-o",
                "jsonpath={.spec.clusterIP}",
            ])
            .run();
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"}, "spec": {
            "hostAliases": [{"ip": address, "hostnames": [HOST]}],
            "containers": [{"name": "client", "image": "client:1", "imagePullPolicy": "Never"}],
        }});
        node.apply(&pod.to_string());
        node.kubectl(["wait", "--for=condition=Ready", "pod/client", "--timeout=180s"])
            .run();
        let mut kubectl = node
            .kubectl(["exec", "-i", "client", "--", "/franz", &format!("{HOST}:9092")])
            .piped();
        Self {
            commands: kubectl.stdin.take().expect("piped"),
            answers: BufReader::new(kubectl.stdout.take().expect("piped")),
            kubectl,
        }
    }

    /// The address of the Service is another one after an uninstall.
    #[track_caller]
    pub fn start_again(node: &Node) -> Self {
        node.kubectl(["delete", "pod", "client", "--now"]).run();
        Self::start(node)
    }

    #[track_caller]
    pub fn ask(&mut self, command: Value) -> Value {
        writeln!(self.commands, "{command}").expect("the client runs");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the client runs");
        let answer: Value =
            serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{command}: {e}: {answer}"));
        assert!(answer.get("error").is_none(), "{command}: {answer}");
        answer
    }

    /// Answers the offset of the first.
    #[track_caller]
    pub fn produce(&mut self, topic: &str, timestamp: i64, values: &[String]) -> i64 {
        let answer = self.ask(
            json!({"do": "produce", "topic": topic, "partition": 0, "codec": "none", "acks": "all",
            "timestamp": timestamp, "values": values}),
        );
        answer["first"].as_i64().expect("an offset")
    }

    #[track_caller]
    pub fn read(&mut self, topic: &str, from: i64, count: usize) -> Vec<String> {
        self.ask(json!({"do": "open", "id": "reader", "topic": topic, "partition": 0, "from": from}));
        let answer = self.ask(json!({"do": "take", "id": "reader", "count": count}));
        self.ask(json!({"do": "close", "id": "reader"}));
        let records = answer["records"].as_array().expect("a list").iter();
        records
            .map(|record| record[1].as_str().expect("text").to_owned())
            .collect()
    }

    /// The group reads `count` records, commits and leaves.
    #[track_caller]
    pub fn catch_up(&mut self, group: &str, topic: &str, count: i64) {
        self.ask(json!({"do": "join", "id": "member", "group": group, "topic": topic}));
        eventually("the group to have read", NODE_PATIENCE, || {
            let answer = self.ask(json!({"do": "member", "id": "member"}));
            (answer["count"] == count).then_some(()).ok_or(answer)
        });
        self.ask(json!({"do": "commit", "id": "member"}));
        self.ask(json!({"do": "leave", "id": "member"}));
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.kubectl.kill());
        drop(self.kubectl.wait());
    }
}
