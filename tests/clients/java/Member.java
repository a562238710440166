import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** A member of a group: a consumer in a thread of its own, which is the only one to touch it. */
final class Member implements ConsumerRebalanceListener {
    private final Consumer<String, String> consumer;
    private final String topic;
    private final Thread thread = new Thread(this::run);
    private final ConcurrentLinkedQueue<CompletableFuture<Void>> commits = new ConcurrentLinkedQueue<>();
    private final TreeSet<Integer> partitions = new TreeSet<>();
    private final Map<String, Long> first = new TreeMap<>();
    private final Map<Integer, Long> next = new HashMap<>();
    private long count;
    private long rebalances;
    private Exception error;
    private volatile boolean running = true;

    Member(Consumer<String, String> consumer, String topic) {
        this.consumer = consumer;
        this.topic = topic;
        thread.setDaemon(true);
        thread.start();
    }

    private void run() {
        try {
            consumer.subscribe(List.of(topic), this);
            while (running) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(50))) {
                    record(record);
                }
                for (CompletableFuture<Void> done = commits.poll(); done != null; done = commits.poll()) {
                    commitNow(done);
                }
            }
            consumer.close();
        } catch (Exception e) {
            synchronized (this) {
                error = e;
            }
        }
    }

    private synchronized void record(ConsumerRecord<String, String> record) {
        first.putIfAbsent(Integer.toString(record.partition()), record.offset());
        next.put(record.partition(), record.offset() + 1);
        count++;
    }

    private void commitNow(CompletableFuture<Void> done) {
        try {
            Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
            synchronized (this) {
                for (int partition : partitions) {
                    if (next.containsKey(partition)) {
                        positions.put(new TopicPartition(topic, partition), new OffsetAndMetadata(next.get(partition)));
                    }
                }
            }
            consumer.commitSync(positions);
            done.complete(null);
        } catch (Exception e) {
            done.completeExceptionally(e);
        }
    }

    @Override
    public synchronized void onPartitionsAssigned(Collection<TopicPartition> assigned) {
        assigned.forEach(each -> partitions.add(each.partition()));
        rebalances++;
    }

    @Override
    public synchronized void onPartitionsRevoked(Collection<TopicPartition> revoked) {
        revoked.forEach(each -> partitions.remove(each.partition()));
    }

    synchronized Map<String, Object> progress() throws Exception {
        if (error != null) {
            throw error;
        }
        return Map.of(
                "partitions", List.copyOf(partitions),
                "first", Map.copyOf(first),
                "count", count,
                "rebalances", rebalances);
    }

    void commit() throws Exception {
        CompletableFuture<Void> done = new CompletableFuture<>();
        commits.add(done);
        done.get(240, TimeUnit.SECONDS);
    }

    void leave() throws Exception {
        running = false;
        thread.join(240_000);
        progress();
    }
}
