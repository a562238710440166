import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.zip.CRC32;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Runs the Java client by commands, a JSON object a line; ../adapter.rs says which. The same source serves every version of the client. */
public final class Adapter {
    private static final Duration PATIENCE = Duration.ofSeconds(240);
    private final String bootstrap;
    private final Map<String, KafkaConsumer<String, String>> readers = new HashMap<>();
    private final Map<String, Member> members = new HashMap<>();
    private Admin admin;

    private Adapter(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    /** The client has no way to do it. */
    private static final class Cannot extends Exception {
        Cannot(String reason) {
            super(reason);
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        Adapter adapter = new Adapter(args[0]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, ?> reply;
            try {
                reply = adapter.answer(new Command(line));
            } catch (Cannot cannot) {
                reply = Map.of("cannot", cannot.getMessage());
            } catch (Exception e) {
                Throwable cause = e instanceof ExecutionException && e.getCause() != null ? e.getCause() : e;
                reply = Map.of("error", cause.toString());
            }
            out.println(Json.write(reply));
        }
        System.exit(0);
    }

    private record Command(Map<?, ?> fields) {
        Command(String line) {
            this((Map<?, ?>) Json.parse(line));
        }

        String text(String name) {
            return (String) fields.get(name);
        }

        int number(String name) {
            return ((Long) fields.get(name)).intValue();
        }

        TopicPartition at() {
            return new TopicPartition(text("topic"), number("partition"));
        }
    }

    private Map<String, ?> answer(Command command) throws Exception {
        switch (command.text("do")) {
            case "create" -> create(command);
            case "partitions" -> {
                String topic = command.text("topic");
                var found = admin().describeTopics(List.of(topic)).allTopicNames().get().get(topic);
                return Map.of("count", (long) found.partitions().size());
            }
            case "produce" -> {
                return produce(command);
            }
            case "open" -> open(command);
            case "take" -> {
                return Map.of("records", take(command.text("id"), command.number("count"), PATIENCE));
            }
            case "poll" -> {
                return Map.of("records", take(command.text("id"), 1, Duration.ofMillis(500)));
            }
            case "close" -> readers.remove(command.text("id")).close();
            case "digest" -> {
                return digest(command);
            }
            case "join" -> join(command);
            case "member" -> {
                return members.get(command.text("id")).progress();
            }
            case "commit" -> members.get(command.text("id")).commit();
            case "leave" -> members.remove(command.text("id")).leave();
            case "committed" -> {
                var found = admin().listConsumerGroupOffsets(command.text("group")).partitionsToOffsetAndMetadata().get();
                var position = found.get(command.at());
                return Map.of("offset", position == null ? -1L : position.offset());
            }
            case "describe" -> {
                ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, command.text("topic"));
                var found = admin().describeConfigs(List.of(resource)).all().get().get(resource);
                return Map.of("value", found.get(command.text("key")).value());
            }
            case "alter" -> {
                ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, command.text("topic"));
                ConfigEntry entry = new ConfigEntry(command.text("key"), command.text("value"));
                var change = List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
                admin().incrementalAlterConfigs(Map.of(resource, change)).all().get();
            }
            case "delete-records" -> {
                var before = RecordsToDelete.beforeOffset(command.number("before"));
                admin().deleteRecords(Map.of(command.at(), before)).all().get();
            }
            default -> throw new Cannot("no command " + command.text("do"));
        }
        return Map.of();
    }

    private Properties settings(Map<String, Object> more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        // A request is not sent again while its answer may still come.
        settings.put("request.timeout.ms", (int) PATIENCE.toMillis());
        settings.put("default.api.timeout.ms", (int) PATIENCE.toMillis());
        settings.putAll(more);
        return settings;
    }

    private Admin admin() {
        if (admin == null) {
            admin = Admin.create(settings(Map.of()));
        }
        return admin;
    }

    private void create(Command command) throws Exception {
        NewTopic topic = new NewTopic(command.text("topic"), command.number("partitions"), (short) 1);
        Map<String, String> config = new HashMap<>();
        ((Map<?, ?>) command.fields().get("config")).forEach((key, value) -> config.put((String) key, (String) value));
        admin().createTopics(List.of(topic.configs(config))).all().get();
    }

    private Map<String, ?> produce(Command command) throws Exception {
        Map<String, Object> settings = Map.of(
                "compression.type", command.text("codec"),
                "acks", command.text("acks"),
                "enable.idempotence", command.fields().get("idempotent"),
                "linger.ms", 5);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        Long timestamp = (Long) command.fields().get("timestamp");
        try (var producer = new KafkaProducer<>(settings(settings), new StringSerializer(), new StringSerializer())) {
            for (Object value : (List<?>) command.fields().get("values")) {
                Long time = timestamp == null ? null : timestamp + sent.size();
                sent.add(producer.send(
                        new ProducerRecord<>(command.text("topic"), command.number("partition"), time, null, (String) value)));
            }
            producer.flush();
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
        }
        RecordMetadata first = sent.get(0).get();
        return Map.of("first", first.hasOffset() ? first.offset() : -1L);
    }

    private KafkaConsumer<String, String> consumer(Map<String, Object> more) {
        Properties settings = settings(more);
        settings.put("enable.auto.commit", false);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private void open(Command command) {
        var consumer = consumer(Map.of("auto.offset.reset", command.text("reset")));
        readers.put(command.text("id"), consumer);
        TopicPartition at = command.at();
        consumer.assign(List.of(at));
        Object from = command.fields().get("from");
        if (from.equals("beginning")) {
            consumer.seekToBeginning(List.of(at));
        } else if (from.equals("end")) {
            consumer.seek(at, consumer.endOffsets(List.of(at)).get(at));
        } else if (from instanceof Map<?, ?> time) {
            consumer.seek(at, consumer.offsetsForTimes(Map.of(at, (Long) time.get("timestamp"))).get(at).offset());
        } else {
            consumer.seek(at, (Long) from);
        }
    }

    private List<List<Object>> take(String id, int count, Duration patience) {
        List<List<Object>> records = new ArrayList<>();
        long deadline = System.nanoTime() + patience.toNanos();
        var consumer = readers.get(id);
        while (records.size() < count && System.nanoTime() < deadline) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(250))) {
                records.add(List.of(record.offset(), record.value()));
            }
        }
        return records;
    }

    private Map<String, ?> digest(Command command) {
        List<TopicPartition> all = new ArrayList<>();
        for (int partition = 0; partition < command.number("partitions"); partition++) {
            all.add(new TopicPartition(command.text("topic"), partition));
        }
        long count = 0;
        long sum = 0;
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        try (var consumer = consumer(Map.of())) {
            consumer.assign(all);
            consumer.seekToBeginning(all);
            while (count < command.number("count") && System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(250))) {
                    CRC32 crc = new CRC32();
                    String line = record.partition() + ":" + record.offset() + ":" + record.value();
                    crc.update(line.getBytes(StandardCharsets.UTF_8));
                    sum += crc.getValue();
                    count++;
                }
            }
        }
        return Map.of("count", count, "sum", sum);
    }

    private static String version() throws IOException {
        Properties build = new Properties();
        try (InputStream in = Admin.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            build.load(in);
        }
        return build.getProperty("version");
    }

    private void join(Command command) throws Cannot, IOException {
        Map<String, Object> settings = new HashMap<>();
        settings.put("group.id", command.text("group"));
        settings.put("auto.offset.reset", "earliest");
        if (command.text("instance") != null) {
            settings.put("group.instance.id", command.text("instance"));
        }
        if (command.text("protocol").equals("consumer")) {
            if (version().startsWith("3.")) {
                throw new Cannot("no consumer-group protocol for production before 4.0");
            }
            settings.put("group.protocol", "consumer");
        } else {
            settings.put("session.timeout.ms", 240_000);
            settings.put("heartbeat.interval.ms", 500);
        }
        members.put(command.text("id"), new Member(consumer(settings), command.text("topic")));
    }
}
