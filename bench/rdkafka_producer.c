/* Produces messages of one size through librdkafka as fast as it can, and times it.
 *
 * Payloads are not copied and only failures are reported back, so that the client costs as little as it can; the same
 * program runs against the in-process mock. Partitions get chunks of messages in turn. CHUNK 0 lets batches fill up to
 * a megabyte; any other number is how many messages a chunk and a batch have, so that batches stay alike however many
 * partitions there are. Without a codec all messages are one payload; with one they are thousands of different ones,
 * half of each random, or they would shrink to nothing.
 *
 *   rdkafka_producer LIBRARY BOOTSTRAP|mock TOPIC PARTITIONS MESSAGES WARMUP MESSAGE_BYTES ACKS CODEC CHUNK QUEUE PIDS
 *
 * QUEUE is how many messages may wait, sent and not acknowledged included. Prints one JSON object. PIDS (0: none) are whose CPU clocks are read at the start and at the end of the timed part.
 */
#include "rdkafka.h"

#define CHUNK_MAX 500
#define NAP_US 1000 /* a fuller queue is worth waiting for: threads that meet often hold each other up */
#define PAYLOADS 4096 /* together far more than a codec's window */

static long failures;
static char *payloads;
static size_t payload_bytes;
static long payload_count, payload_next;
static int partitions, partition_next, chunk_messages;

static void on_delivery(rd_kafka_t *kafka, const message_t *message, void *opaque) {
    (void)kafka;
    (void)opaque;
    if (message->err && failures++ == 0)
        fprintf(stderr, "rdkafka_producer: not delivered: %s\n", err2str(message->err));
}

static void make_payloads(const char *codec) {
    payload_count = strcmp(codec, "none") == 0 ? 1 : PAYLOADS;
    payloads = malloc((size_t)payload_count * payload_bytes);
    uint32_t random = 2463534242u;
    for (size_t i = 0; i < (size_t)payload_count * payload_bytes; i++) {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        size_t place = i % payload_bytes;
        int plain = payload_count == 1 || place < payload_bytes / 2;
        payloads[i] = plain ? (char)('a' + place % 26) : (char)random;
    }
}

static message_t next_message(void) {
    char *payload = payloads + (size_t)payload_next * payload_bytes;
    payload_next = (payload_next + 1) % payload_count;
    return (message_t){.payload = payload, .len = payload_bytes};
}

static void produce(rd_kafka_t *kafka, rd_kafka_topic_t *topic, long count) {
    static message_t chunk[CHUNK_MAX];
    while (count > 0) {
        int filled = count < chunk_messages ? (int)count : chunk_messages;
        for (int i = 0; i < filled; i++)
            chunk[i] = next_message();
        int waiting = filled;
        while (waiting > 0) {
            int kept = 0;
            produce_batch(topic, partition_next, 0, chunk, waiting);
            for (int i = 0; i < waiting; i++) {
                if (chunk[i].err == QUEUE_FULL)
                    chunk[kept++] = (message_t){.payload = chunk[i].payload, .len = payload_bytes};
                else if (chunk[i].err)
                    fail("produce", err2str(chunk[i].err));
            }
            if (kept)
                usleep(NAP_US);
            waiting = kept;
        }
        partition_next = (partition_next + 1) % partitions;
        kafka_poll(kafka, 0);
        count -= filled;
    }
    int error = kafka_flush(kafka, FLUSH_MS);
    if (error)
        fail("flush", err2str(error));
}

int main(int argc, char **argv) {
    if (argc != 13)
        fail("usage", "LIBRARY BOOTSTRAP|mock TOPIC PARTITIONS MESSAGES WARMUP MESSAGE_BYTES ACKS CODEC CHUNK QUEUE PIDS");
    partitions = atoi(argv[4]);
    long messages = atol(argv[5]), warmup = atol(argv[6]);
    payload_bytes = (size_t)atol(argv[7]);
    chunk_messages = atoi(argv[10]) ? atoi(argv[10]) : CHUNK_MAX;
    if (partitions < 1 || chunk_messages < 1 || chunk_messages > CHUNK_MAX)
        fail("usage", "PARTITIONS and CHUNK");
    watch_brokers(argv[12]);

    load(argv[1]);
    rd_kafka_conf_t *conf = configuration(argv[2]);
    set(conf, "acks", argv[8]);
    set(conf, "compression.codec", argv[9]);
    set(conf, "linger.ms", "5");
    set(conf, "queue.buffering.max.messages", argv[11]);
    set(conf, "queue.buffering.max.kbytes", "1000000");
    /* Without a number of our own batch.size, 1 MB, is the bound. */
    set(conf, "batch.num.messages", atoi(argv[10]) ? argv[10] : "100000");
    set(conf, "delivery.report.only.error", "true");
    set(conf, "message.timeout.ms", "120000");
    conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *kafka = client(PRODUCER, conf);
    if (strcmp(argv[2], "mock") == 0 && mock_topic_create(mock_cluster(kafka), argv[3], partitions, 1))
        fail("rd_kafka_mock_topic_create", "no topic");
    rd_kafka_topic_t *topic = topic_of(kafka, argv[3]);
    make_payloads(argv[9]);

    double cpu_before[BROKERS_MAX], cpu_after[BROKERS_MAX];
    produce(kafka, topic, warmup);
    read_broker_cpu(cpu_before);
    double client_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    double started = seconds(CLOCK_MONOTONIC);
    produce(kafka, topic, messages);
    double elapsed = seconds(CLOCK_MONOTONIC) - started;
    read_broker_cpu(cpu_after);
    client_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - client_cpu;
    if (failures)
        fail("delivery", "messages failed");
    printf("{\"seconds\": %.6f, \"messages\": %ld, \"bytes\": %ld, ", elapsed, messages, messages * (long)payload_bytes);
    print_broker_cpu(cpu_before, cpu_after);
    printf("\"client_cpu_seconds\": %.6f, \"library\": \"%s\"}\n", client_cpu, version_str());
    fflush(stdout);
    _exit(0); /* destroying the mock takes as long as the run and tells nothing */
}
