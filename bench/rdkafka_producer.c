/* Produces messages of one size through librdkafka as fast as it can, and times it.
 *
 * The library is opened at run time with our own prototypes of its stable C interface, so neither headers nor a -dev
 * package are needed: the copy inside the confluent-kafka wheel does. Payloads are not copied and only failures are
 * reported back, so that the client costs as little as it can; the same program runs against the in-process mock.
 *
 *   rdkafka_producer LIBRARY BOOTSTRAP|mock TOPIC MESSAGES WARMUP MESSAGE_BYTES ACKS BROKER_PID
 *
 * Prints one JSON object. BROKER_PID (0: none) is whose CPU clock is read at the start and at the end of the timed part.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PRODUCER 0
#define CONFIG_OK 0
#define QUEUE_FULL (-184)
#define CHUNK 500
#define FLUSH_MS 120000

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *private_data;
} message_t;

static rd_kafka_conf_t *(*conf_new)(void);
static int (*conf_set)(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
static void (*conf_set_dr_msg_cb)(rd_kafka_conf_t *, void (*)(rd_kafka_t *, const message_t *, void *));
static rd_kafka_t *(*kafka_new)(int, rd_kafka_conf_t *, char *, size_t);
static rd_kafka_topic_t *(*topic_new)(rd_kafka_t *, const char *, rd_kafka_topic_conf_t *);
static int (*produce_batch)(rd_kafka_topic_t *, int32_t, int, message_t *, int);
static int (*kafka_poll)(rd_kafka_t *, int);
static int (*kafka_flush)(rd_kafka_t *, int);
static const char *(*err2str)(int);
static const char *(*version_str)(void);

static long failures;

static void fail(const char *what, const char *why) {
    fprintf(stderr, "rdkafka_producer: %s: %s\n", what, why);
    exit(1);
}

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found)
        fail("librdkafka has no", name);
    return found;
}

static void load(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library)
        fail("librdkafka can't be opened", dlerror());
    *(void **)&conf_new = symbol(library, "rd_kafka_conf_new");
    *(void **)&conf_set = symbol(library, "rd_kafka_conf_set");
    *(void **)&conf_set_dr_msg_cb = symbol(library, "rd_kafka_conf_set_dr_msg_cb");
    *(void **)&kafka_new = symbol(library, "rd_kafka_new");
    *(void **)&topic_new = symbol(library, "rd_kafka_topic_new");
    *(void **)&produce_batch = symbol(library, "rd_kafka_produce_batch");
    *(void **)&kafka_poll = symbol(library, "rd_kafka_poll");
    *(void **)&kafka_flush = symbol(library, "rd_kafka_flush");
    *(void **)&err2str = symbol(library, "rd_kafka_err2str");
    *(void **)&version_str = symbol(library, "rd_kafka_version_str");
}

static void on_delivery(rd_kafka_t *kafka, const message_t *message, void *opaque) {
    (void)kafka;
    (void)opaque;
    if (message->err && failures++ == 0)
        fprintf(stderr, "rdkafka_producer: not delivered: %s\n", err2str(message->err));
}

static void set(rd_kafka_conf_t *conf, const char *key, const char *value) {
    char error[512];
    if (conf_set(conf, key, value, error, sizeof error) != CONFIG_OK)
        fail(key, error);
}

static double seconds(clockid_t clock) {
    struct timespec now;
    if (clock_gettime(clock, &now))
        fail("clock_gettime", "the process is gone");
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The CPU clock of a whole process, dead threads included: what clock_getcpuclockid() computes. */
static double cpu_of(pid_t pid) { return pid ? seconds((clockid_t)((~(unsigned)pid) << 3 | 2)) : 0.0; }

static void produce(rd_kafka_t *kafka, rd_kafka_topic_t *topic, char *payload, size_t bytes, long count) {
    static message_t chunk[CHUNK];
    while (count > 0) {
        int filled = count < CHUNK ? (int)count : CHUNK;
        for (int i = 0; i < filled; i++)
            chunk[i] = (message_t){.payload = payload, .len = bytes};
        int waiting = filled;
        while (waiting > 0) {
            int kept = 0;
            produce_batch(topic, 0, 0, chunk, waiting);
            for (int i = 0; i < waiting; i++) {
                if (chunk[i].err == QUEUE_FULL)
                    chunk[kept++] = (message_t){.payload = payload, .len = bytes};
                else if (chunk[i].err)
                    fail("produce", err2str(chunk[i].err));
            }
            if (kept)
                usleep(500); /* the queue holds far more than the wire takes in that time */
            waiting = kept;
        }
        kafka_poll(kafka, 0);
        count -= filled;
    }
    int error = kafka_flush(kafka, FLUSH_MS);
    if (error)
        fail("flush", err2str(error));
}

int main(int argc, char **argv) {
    if (argc != 9)
        fail("usage", "LIBRARY BOOTSTRAP|mock TOPIC MESSAGES WARMUP MESSAGE_BYTES ACKS BROKER_PID");
    long messages = atol(argv[4]), warmup = atol(argv[5]);
    size_t bytes = (size_t)atol(argv[6]);
    pid_t broker = (pid_t)atol(argv[8]);
    char error[512];

    load(argv[1]);
    rd_kafka_conf_t *conf = conf_new();
    if (strcmp(argv[2], "mock") == 0)
        set(conf, "test.mock.num.brokers", "1");
    else
        set(conf, "bootstrap.servers", argv[2]);
    set(conf, "acks", argv[7]);
    set(conf, "linger.ms", "5");
    set(conf, "queue.buffering.max.messages", "200000");
    set(conf, "queue.buffering.max.kbytes", "1000000");
    set(conf, "batch.num.messages", "100000"); /* batch.size, 1 MB, is the bound */
    set(conf, "delivery.report.only.error", "true");
    set(conf, "message.timeout.ms", "60000");
    set(conf, "log_level", "3"); /* the notice that the mock is on is none */
    conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *kafka = kafka_new(PRODUCER, conf, error, sizeof error);
    if (!kafka)
        fail("rd_kafka_new", error);
    rd_kafka_topic_t *topic = topic_new(kafka, argv[3], NULL);
    if (!topic)
        fail("rd_kafka_topic_new", argv[3]);
    char *payload = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        payload[i] = (char)('a' + i % 26);

    produce(kafka, topic, payload, bytes, warmup);
    double broker_cpu = cpu_of(broker), client_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    double started = seconds(CLOCK_MONOTONIC);
    produce(kafka, topic, payload, bytes, messages);
    double elapsed = seconds(CLOCK_MONOTONIC) - started;
    broker_cpu = cpu_of(broker) - broker_cpu;
    client_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - client_cpu;
    if (failures)
        fail("delivery", "messages failed");
    printf("{\"seconds\": %.6f, \"bytes\": %ld, \"broker_cpu_seconds\": %.6f, \"client_cpu_seconds\": %.6f, "
           "\"library\": \"%s\"}\n",
           elapsed, messages * (long)bytes, broker_cpu, client_cpu, version_str());
    fflush(stdout);
    _exit(0); /* destroying the mock takes as long as the run and tells nothing */
}
