/* Sends messages at a fixed rate through librdkafka and times each twice: until it is acknowledged to the producer, and
 * until a consumer in the same process has it.
 *
 * One thread sends at the moments of the schedule, one serves the producer's reports, one consumes; nobody lingers. The
 * schedule does not wait for answers. Each message carries the moment it was given to the library. The warm-up is part
 * of the same schedule and is not counted. CORES is "any", or "one" to keep all threads of the client on one core, where
 * none of them has to wake another core to hand a message over.
 *
 *   rdkafka_latency LIBRARY BOOTSTRAP|mock TOPIC RATE SECONDS WARMUP_SECONDS MESSAGE_BYTES ACKS CORES PIDS
 *
 * The topic has one partition. Prints one JSON object, times in microseconds; "late" counts sends that began
 * more than a millisecond after their moment, because this program did not get a core.
 */
#include "rdkafka.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#define LATE_SECONDS 0.001
#define STRAGGLER_SECONDS 60.0
#define CONNECT_MS 20000

static double counted_from; /* what was sent before is warm-up */
static double *acknowledged_after, *consumed_after;
static long total, acknowledged_counted, consumed_counted;
static atomic_long acknowledged_all, consumed_all;
static atomic_int finished;
static rd_kafka_t *producer;
static rd_kafka_queue_t *queue;

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void on_delivery(rd_kafka_t *kafka, const message_t *message, void *opaque) {
    (void)kafka;
    (void)opaque;
    if (message->err)
        fail("not delivered", err2str(message->err));
    double sent;
    memcpy(&sent, message->payload, sizeof sent);
    if (sent >= counted_from)
        acknowledged_after[acknowledged_counted++] = seconds(CLOCK_MONOTONIC) - sent;
    acknowledged_all++;
}

static void on_message(message_t *message, void *opaque) {
    (void)opaque;
    if (message->err < 0) /* the library's own notices: the end of the partition, a broker that is gone */
        return;
    if (message->err)
        fail("consume", err2str(message->err));
    double sent;
    memcpy(&sent, message->payload, sizeof sent);
    if (sent >= counted_from && consumed_counted < total) /* a message sent again after a failure can be there twice */
        consumed_after[consumed_counted++] = seconds(CLOCK_MONOTONIC) - sent;
    consumed_all++;
}

static void *serve_reports(void *unused) {
    while (!finished)
        kafka_poll(producer, 100);
    return unused;
}

static void *serve_messages(void *unused) {
    while (!finished)
        consume_callback_queue(queue, 100, on_message, NULL);
    return unused;
}

static void sleep_until(double moment) {
    struct timespec until = {.tv_sec = (time_t)moment, .tv_nsec = (long)((moment - (double)(time_t)moment) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

/* The broker inside librdkafka makes a topic when the producer asks for it, which the consumer may outrun. */
static int64_t end_of(rd_kafka_t *consumer, const char *topic) {
    int64_t low, high;
    double deadline = seconds(CLOCK_MONOTONIC) + CONNECT_MS / 1e3;
    int error;
    while ((error = query_watermarks(consumer, topic, 0, &low, &high, CONNECT_MS))) {
        if (seconds(CLOCK_MONOTONIC) > deadline)
            fail("watermarks", err2str(error));
        usleep(10000);
    }
    return high;
}

static void wait_for_all(long sent) {
    double deadline = seconds(CLOCK_MONOTONIC) + STRAGGLER_SECONDS;
    while (acknowledged_all < sent || consumed_all < sent) {
        if (seconds(CLOCK_MONOTONIC) > deadline)
            fail("waiting", acknowledged_all < sent ? "messages are not acknowledged" : "messages are not consumed");
        usleep(1000);
    }
}

static void print_percentiles(const char *what, double *values, long count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    printf("\"%s_p50_us\": %.1f, \"%s_p99_us\": %.1f, \"%s_max_us\": %.1f, ", what, values[count / 2] * 1e6, what,
           values[count * 99 / 100] * 1e6, what, values[count - 1] * 1e6);
}

int main(int argc, char **argv) {
    if (argc != 11)
        fail("usage", "LIBRARY BOOTSTRAP|mock TOPIC RATE SECONDS WARMUP_SECONDS MESSAGE_BYTES ACKS CORES PIDS");
    double rate = atof(argv[4]), duration = atof(argv[5]), warmup = atof(argv[6]);
    size_t bytes = (size_t)atol(argv[7]);
    long late = 0;
    total = (long)(rate * (duration + warmup));
    if (bytes < sizeof(double) || total < 1)
        fail("usage", "too small");
    watch_brokers(argv[10]);
    if (strcmp(argv[9], "one") == 0)
        stay_on_one_core();
    prctl(PR_SET_TIMERSLACK, 1000); /* threads inherit it; the default would add 50 us to every moment */

    load(argv[1]);
    rd_kafka_conf_t *conf = configuration(argv[2]);
    set(conf, "acks", argv[8]);
    set(conf, "linger.ms", "0");
    set(conf, "socket.nagle.disable", "true");
    set(conf, "message.timeout.ms", "60000");
    /* As Kafka's own client: a broker that is slower than the schedule gets batches, not an endless queue of requests. */
    set(conf, "max.in.flight.requests.per.connection", "5");
    conf_set_dr_msg_cb(conf, on_delivery);
    producer = client(PRODUCER, conf);
    rd_kafka_topic_t *topic = topic_of(producer, argv[3]);
    int is_mock = strcmp(argv[2], "mock") == 0;
    conf = configuration(is_mock ? mock_bootstraps(mock_cluster(producer)) : argv[2]);
    set(conf, "enable.auto.commit", "false");
    set(conf, "socket.nagle.disable", "true");
    rd_kafka_t *consumer = client(CONSUMER, conf);
    queue = queue_new(consumer);
    if (consume_start_queue(topic_of(consumer, argv[3]), 0, end_of(consumer, argv[3]), queue))
        fail("rd_kafka_consume_start_queue", err2str(last_error()));

    acknowledged_after = calloc((size_t)total, sizeof(double));
    consumed_after = calloc((size_t)total, sizeof(double));
    char *payload = calloc(1, bytes);
    double started = seconds(CLOCK_MONOTONIC) + 0.05, client_cpu = 0;
    double cpu_before[BROKERS_MAX], cpu_after[BROKERS_MAX];
    int counting = 0;
    counted_from = started + warmup;
    pthread_t reports, messages;
    if (pthread_create(&reports, NULL, serve_reports, NULL) || pthread_create(&messages, NULL, serve_messages, NULL))
        fail("pthread_create", "no thread");
    for (long i = 0; i < total; i++) {
        double moment = started + (double)i / rate;
        sleep_until(moment);
        double now = seconds(CLOCK_MONOTONIC);
        if (!counting && now >= counted_from) {
            counting = 1;
            read_broker_cpu(cpu_before);
            client_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
            now = seconds(CLOCK_MONOTONIC);
        }
        late += counting && now - moment > LATE_SECONDS;
        memcpy(payload, &now, sizeof now);
        if (produce_one(topic, 0, COPY_PAYLOAD, payload, bytes, NULL, 0, NULL))
            fail("produce", err2str(last_error()));
    }
    wait_for_all(total);
    read_broker_cpu(cpu_after);
    client_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - client_cpu;
    finished = 1;
    pthread_join(reports, NULL);
    pthread_join(messages, NULL);
    if (!counting || !acknowledged_counted || !consumed_counted)
        fail("counting", "nothing was sent after the warm-up");
    printf("{\"messages\": %ld, \"late\": %ld, ", acknowledged_counted, late);
    print_percentiles("produce", acknowledged_after, acknowledged_counted);
    print_percentiles("end_to_end", consumed_after, consumed_counted);
    print_broker_cpu(cpu_before, cpu_after);
    printf("\"client_cpu_seconds\": %.6f, \"library\": \"%s\"}\n", client_cpu, version_str());
    fflush(stdout);
    _exit(0);
}
