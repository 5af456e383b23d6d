/* Consumes a topic from its start through librdkafka as fast as it can, and times it.
 *
 * Connections are made before the clock starts, fetching begins with it, and it stops at the last message: every byte
 * that counts was fetched within that time. No group, no commits.
 *
 * Its threads stay on one core. Where two of them share memory (one makes the messages, another frees them), a second
 * core costs them more than it gives: on two cores they spend twice the CPU time on messages of 100 B, and how fast they
 * read depends on where the kernel puts them, not on the broker.
 *
 *   rdkafka_consumer LIBRARY BOOTSTRAP TOPIC PARTITIONS MESSAGES PIDS
 *
 * Prints one JSON object. PIDS (0: none) are whose CPU clocks are read at the start and at the end of the timed part.
 */
#include "rdkafka.h"

#define SILENCE_SECONDS 20
#define CONNECT_MS 20000

static long consumed, consumed_bytes;

static void on_message(message_t *message, void *opaque) {
    (void)opaque;
    if (message->err == PARTITION_END)
        return;
    if (message->err)
        fail("consume", err2str(message->err));
    consumed++;
    consumed_bytes += (long)message->len;
}

int main(int argc, char **argv) {
    if (argc != 7)
        fail("usage", "LIBRARY BOOTSTRAP TOPIC PARTITIONS MESSAGES PIDS");
    int partitions = atoi(argv[4]);
    long messages = atol(argv[5]);
    watch_brokers(argv[6]);
    stay_on_one_core(); /* before there are threads: they are born there */

    load(argv[1]);
    rd_kafka_conf_t *conf = configuration(argv[2]);
    set(conf, "enable.auto.commit", "false");
    set(conf, "queued.min.messages", "1000000"); /* never wait for the application */
    rd_kafka_t *kafka = client(CONSUMER, conf);
    rd_kafka_topic_t *topic = topic_of(kafka, argv[3]);
    rd_kafka_queue_t *queue = queue_new(kafka);
    long available = 0;
    for (int i = 0; i < partitions; i++) {
        int64_t low, high;
        int error = query_watermarks(kafka, argv[3], i, &low, &high, CONNECT_MS);
        if (error)
            fail("watermarks", err2str(error));
        available += high - low;
    }
    if (available < messages)
        fail("consume", "the topic has fewer messages than asked for");

    double cpu_before[BROKERS_MAX], cpu_after[BROKERS_MAX];
    read_broker_cpu(cpu_before);
    double client_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    double started = seconds(CLOCK_MONOTONIC), progressed = started;
    for (int i = 0; i < partitions; i++)
        if (consume_start_queue(topic, i, 0, queue))
            fail("rd_kafka_consume_start_queue", err2str(last_error()));
    while (consumed < messages) {
        long before = consumed;
        consume_callback_queue(queue, 100, on_message, NULL);
        double now = seconds(CLOCK_MONOTONIC);
        if (consumed > before)
            progressed = now;
        else if (now - progressed > SILENCE_SECONDS)
            fail("consume", "no message for twenty seconds");
    }
    double elapsed = seconds(CLOCK_MONOTONIC) - started;
    read_broker_cpu(cpu_after);
    client_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - client_cpu;
    printf("{\"seconds\": %.6f, \"messages\": %ld, \"bytes\": %ld, ", elapsed, consumed, consumed_bytes);
    print_broker_cpu(cpu_before, cpu_after);
    printf("\"client_cpu_seconds\": %.6f, \"library\": \"%s\"}\n", client_cpu, version_str());
    fflush(stdout);
    _exit(0);
}
