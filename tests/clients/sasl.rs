//! There is no authentication. A client that is set up for it hears so at once, instead of a connection that closes without a word.
use crate::broker::Broker;
use crate::support::kafka::{TOPICS, tool_on};
use crate::support::peers::folder;
use crate::support::process::Start;
use crate::support::temp::TempDir;

#[test]
fn librdkafka_is_told() {
    let broker = Broker::start();
    let script = "
import sys, threading
from confluent_kafka import Producer
told = threading.Event()
def error(problem):
    print(problem.str())
    if 'handshake' in problem.str():
        told.set()
producer = Producer({'bootstrap.servers': sys.argv[1], 'security.protocol': 'SASL_PLAINTEXT', 'sasl.mechanism': 'PLAIN',
    'sasl.username': 'u', 'sasl.password': 'p', 'error_cb': error})
for _ in range(2400):
    producer.poll(0.1)
    if told.is_set():
        sys.exit(0)
sys.exit(3)
";
    let output = Start::new("sasl", folder("python").join("bin/python"))
        .args(["-c", script, broker.bootstrap()])
        .output();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Request not valid in current SASL state"), "{said}");
}

#[test]
fn java_is_told() {
    let broker = Broker::start();
    let home = TempDir::new("sasl");
    let config = home.join("client.properties");
    let text = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=\
                org.apache.kafka.common.security.plain.PlainLoginModule required username=\"u\" password=\"p\";\n";
    std::fs::write(&config, text).expect("a file in our own folder");
    let output = tool_on(broker.bootstrap(), TOPICS)
        .arg("--command-config")
        .arg(&config)
        .arg("--list")
        .output();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("IllegalSaslStateException"), "{said}");
}
