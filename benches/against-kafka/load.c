/* A light load driver on librdkafka: what the Java tools cannot show on two cores, where they are the bottleneck.
 *
 *   load produce BROKER TOPIC PARTITIONS RECORDS RECORD_BYTES BATCH_BYTES ACKS
 *   load consume BROKER TOPIC PARTITIONS RECORDS
 *   load latency BROKER TOPIC PARTITIONS RECORDS_PER_SECOND SECONDS ACKS
 *
 * Prints one line of `name value` pairs. Records are delivered or the exit code is 1.
 */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fail(const char *what, const char *why) {
    fprintf(stderr, "load: %s: %s\n", what, why);
    exit(1);
}

static long delivered, failed;
static double *latencies;

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client;
    (void)opaque;
    if (message->err) {
        failed++;
    } else {
        if (latencies)
            latencies[delivered] = now_seconds() - *(double *)message->payload;
        delivered++;
    }
}

static void set(rd_kafka_conf_t *conf, const char *key, const char *value) {
    char why[512];
    if (rd_kafka_conf_set(conf, key, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        fail(key, why);
}

static rd_kafka_t *client(rd_kafka_type_t kind, rd_kafka_conf_t *conf) {
    char why[512];
    rd_kafka_t *made = rd_kafka_new(kind, conf, why, sizeof why);
    if (!made)
        fail("client", why);
    return made;
}

static rd_kafka_t *producer(const char *broker, const char *batch_bytes, const char *acks, const char *linger) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", broker);
    set(conf, "batch.size", batch_bytes);
    set(conf, "batch.num.messages", "1000000");
    set(conf, "acks", acks);
    set(conf, "linger.ms", linger);
    set(conf, "queue.buffering.max.kbytes", "131072");
    set(conf, "queue.buffering.max.messages", "500000");
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    return client(RD_KAFKA_PRODUCER, conf);
}

static void send_record(rd_kafka_t *to, rd_kafka_topic_t *topic, int partition, void *payload, size_t bytes) {
    while (rd_kafka_produce(topic, partition, RD_KAFKA_MSG_F_COPY, payload, bytes, NULL, 0, NULL) == -1) {
        if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            fail("produce", rd_kafka_err2str(rd_kafka_last_error()));
        rd_kafka_poll(to, 20);
    }
}

static void finish(rd_kafka_t *to, long expected) {
    rd_kafka_flush(to, 120000);
    if (failed || delivered != expected) {
        fprintf(stderr, "load: %ld of %ld records delivered, %ld failed\n", delivered, expected, failed);
        exit(1);
    }
}

static void produce(char **argument) {
    const char *name = argument[1];
    int partitions = atoi(argument[2]);
    long records = atol(argument[3]);
    size_t bytes = (size_t)atol(argument[4]);
    rd_kafka_t *to = producer(argument[0], argument[5], argument[6], "5");
    rd_kafka_topic_t *topic = rd_kafka_topic_new(to, name, NULL);
    char *payload = malloc(bytes);
    unsigned state = 1;
    for (size_t i = 0; i < bytes; i++)
        payload[i] = (char)(' ' + (state = state * 1664525u + 1013904223u) % 90);
    /* A few records first: metadata, connections and the leader are then known. */
    for (int partition = 0; partition < partitions; partition++)
        send_record(to, topic, partition, payload, bytes);
    rd_kafka_flush(to, 60000);
    delivered = 0;
    double start = now_seconds();
    for (long i = 0; i < records; i++) {
        send_record(to, topic, (int)((i / 64) % partitions), payload, bytes);
        if (i % 256 == 0)
            rd_kafka_poll(to, 0);
    }
    finish(to, records);
    double seconds = now_seconds() - start;
    printf("seconds %.3f mb_per_second %.1f records_per_second %.0f\n", seconds,
           (double)records * (double)bytes / 1e6 / seconds, (double)records / seconds);
}

static void consume(char **argument) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", argument[0]);
    set(conf, "queued.max.messages.kbytes", "262144");
    set(conf, "fetch.message.max.bytes", "4194304");
    set(conf, "check.crcs", "false");
    rd_kafka_t *from = client(RD_KAFKA_CONSUMER, conf);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(from, argument[1], NULL);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(from);
    int partitions = atoi(argument[2]);
    long wanted = atol(argument[3]), seen = 0;
    double bytes = 0, start = now_seconds();
    for (int partition = 0; partition < partitions; partition++)
        if (rd_kafka_consume_start_queue(topic, partition, RD_KAFKA_OFFSET_BEGINNING, queue))
            fail("consume", rd_kafka_err2str(rd_kafka_last_error()));
    rd_kafka_message_t *batch[4096];
    while (seen < wanted) {
        /* It waits until the batch is full: never for more than there is. */
        long most = wanted - seen < 4096 ? wanted - seen : 4096;
        ssize_t count = rd_kafka_consume_batch_queue(queue, 30000, batch, (size_t)most);
        if (count <= 0)
            fail("consume", "nothing came for 30 seconds");
        for (ssize_t i = 0; i < count; i++) {
            if (!batch[i]->err) {
                seen++;
                bytes += (double)batch[i]->len;
            }
            rd_kafka_message_destroy(batch[i]);
        }
    }
    double seconds = now_seconds() - start;
    printf("seconds %.3f mb_per_second %.1f records_per_second %.0f\n", seconds, bytes / 1e6 / seconds,
           (double)seen / seconds);
    _exit(fflush(stdout));
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Open loop: a record leaves at its time whether or not earlier ones came back, so a stall is not hidden. */
static void latency(char **argument) {
    int partitions = atoi(argument[2]);
    double rate = atof(argument[3]);
    long records = (long)(rate * atof(argument[4])), warm = (long)rate * 2;
    rd_kafka_t *to = producer(argument[0], "16384", argument[5], "0");
    rd_kafka_topic_t *topic = rd_kafka_topic_new(to, argument[1], NULL);
    char payload[1024] = {0};
    for (int partition = 0; partition < partitions; partition++)
        send_record(to, topic, partition, payload, sizeof payload);
    rd_kafka_flush(to, 60000);
    delivered = 0;
    latencies = calloc((size_t)(records + warm), sizeof *latencies);
    double start = now_seconds();
    for (long i = 0; i < records + warm; i++) {
        double due = start + (double)i / rate;
        while (now_seconds() < due) {
            if (due - now_seconds() > 0.0005)
                rd_kafka_poll(to, 0), usleep(50);
        }
        memcpy(payload, &due, sizeof due);
        send_record(to, topic, (int)(i % partitions), payload, sizeof payload);
        rd_kafka_poll(to, 0);
    }
    finish(to, records + warm);
    double *counted = latencies + warm;
    qsort(counted, (size_t)records, sizeof *counted, ascending);
    printf("p50_ms %.3f p99_ms %.3f p999_ms %.3f max_ms %.3f\n", counted[records / 2] * 1e3,
           counted[records * 99 / 100] * 1e3, counted[records * 999 / 1000] * 1e3, counted[records - 1] * 1e3);
}

int main(int count, char **argument) {
    const char *what = count > 1 ? argument[1] : "";
    if (!strcmp(what, "produce") && count == 9)
        produce(argument + 2);
    else if (!strcmp(what, "consume") && count == 6)
        consume(argument + 2);
    else if (!strcmp(what, "latency") && count == 8)
        latency(argument + 2);
    else
        fail("usage", "see the head of load.c");
    return 0;
}
