/* librdkafka for the bench's drivers, and the clocks they read.
 *
 * The library is opened at run time with our own prototypes of its stable C interface, so neither headers nor a -dev
 * package are needed: the copy inside the confluent-kafka wheel does. Include it once, from a driver's only source.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "unpaced.h"

#define PRODUCER 0
#define CONSUMER 1
#define CONFIG_OK 0
#define QUEUE_FULL (-184)
#define PARTITION_END (-191)
#define COPY_PAYLOAD 2
#define FLUSH_MS 120000
#define BROKERS_MAX 16

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_mock_cluster_s rd_kafka_mock_cluster_t;
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
static void (*conf_set_socket_cb)(rd_kafka_conf_t *, int (*)(int, int, int, void *));
static void (*conf_set_dr_msg_cb)(rd_kafka_conf_t *, void (*)(rd_kafka_t *, const message_t *, void *));
static rd_kafka_t *(*kafka_new)(int, rd_kafka_conf_t *, char *, size_t);
static rd_kafka_topic_t *(*topic_new)(rd_kafka_t *, const char *, rd_kafka_topic_conf_t *);
static int (*produce_one)(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *);
static int (*produce_batch)(rd_kafka_topic_t *, int32_t, int, message_t *, int);
static int (*kafka_poll)(rd_kafka_t *, int);
static int (*kafka_flush)(rd_kafka_t *, int);
static int (*last_error)(void);
static const char *(*err2str)(int);
static const char *(*version_str)(void);
static rd_kafka_queue_t *(*queue_new)(rd_kafka_t *);
static int (*consume_start_queue)(rd_kafka_topic_t *, int32_t, int64_t, rd_kafka_queue_t *);
static int (*consume_callback_queue)(rd_kafka_queue_t *, int, void (*)(message_t *, void *), void *);
static int (*query_watermarks)(rd_kafka_t *, const char *, int32_t, int64_t *, int64_t *, int);
static rd_kafka_mock_cluster_t *(*mock_cluster)(const rd_kafka_t *);
static const char *(*mock_bootstraps)(const rd_kafka_mock_cluster_t *);
static int (*mock_topic_create)(rd_kafka_mock_cluster_t *, const char *, int, int);

static pid_t brokers[BROKERS_MAX];
static int broker_count;

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
    exit(1);
}

/* The last of those allowed, for all threads: call it before there are any, and they are born there. */
static void stay_on_one_core(void) {
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        fail("sched_getaffinity", strerror(errno));
    int last = CPU_SETSIZE - 1;
    while (last > 0 && !CPU_ISSET(last, &allowed))
        last--;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    if (sched_setaffinity(0, sizeof one, &one))
        fail("sched_setaffinity", strerror(errno));
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
    *(void **)&conf_set_socket_cb = symbol(library, "rd_kafka_conf_set_socket_cb");
    *(void **)&conf_set_dr_msg_cb = symbol(library, "rd_kafka_conf_set_dr_msg_cb");
    *(void **)&kafka_new = symbol(library, "rd_kafka_new");
    *(void **)&topic_new = symbol(library, "rd_kafka_topic_new");
    *(void **)&produce_one = symbol(library, "rd_kafka_produce");
    *(void **)&produce_batch = symbol(library, "rd_kafka_produce_batch");
    *(void **)&kafka_poll = symbol(library, "rd_kafka_poll");
    *(void **)&kafka_flush = symbol(library, "rd_kafka_flush");
    *(void **)&last_error = symbol(library, "rd_kafka_last_error");
    *(void **)&err2str = symbol(library, "rd_kafka_err2str");
    *(void **)&version_str = symbol(library, "rd_kafka_version_str");
    *(void **)&queue_new = symbol(library, "rd_kafka_queue_new");
    *(void **)&consume_start_queue = symbol(library, "rd_kafka_consume_start_queue");
    *(void **)&consume_callback_queue = symbol(library, "rd_kafka_consume_callback_queue");
    *(void **)&query_watermarks = symbol(library, "rd_kafka_query_watermark_offsets");
    *(void **)&mock_cluster = symbol(library, "rd_kafka_handle_mock_cluster");
    *(void **)&mock_bootstraps = symbol(library, "rd_kafka_mock_cluster_bootstraps");
    *(void **)&mock_topic_create = symbol(library, "rd_kafka_mock_topic_create");
}

static void set(rd_kafka_conf_t *conf, const char *key, const char *value) {
    char error[512];
    if (conf_set(conf, key, value, error, sizeof error) != CONFIG_OK)
        fail(key, error);
}

static int unpaced_socket(int domain, int type, int protocol, void *opaque) {
    (void)opaque;
    int fd = socket(domain, type, protocol);
    if (fd >= 0)
        send_unpaced(fd);
    return fd;
}

/* A configuration for the brokers at `bootstrap`, or for librdkafka's own broker in this process ("mock"). */
static rd_kafka_conf_t *configuration(const char *bootstrap) {
    rd_kafka_conf_t *conf = conf_new();
    if (strcmp(bootstrap, "mock") == 0)
        set(conf, "test.mock.num.brokers", "1");
    else
        set(conf, "bootstrap.servers", bootstrap);
    conf_set_socket_cb(conf, unpaced_socket);
    set(conf, "log_level", "3"); /* the notice that the mock is on is none */
    return conf;
}

static rd_kafka_t *client(int kind, rd_kafka_conf_t *conf) {
    char error[512];
    rd_kafka_t *kafka = kafka_new(kind, conf, error, sizeof error);
    if (!kafka)
        fail("rd_kafka_new", error);
    return kafka;
}

static rd_kafka_topic_t *topic_of(rd_kafka_t *kafka, const char *name) {
    rd_kafka_topic_t *topic = topic_new(kafka, name, NULL);
    if (!topic)
        fail("rd_kafka_topic_new", name);
    return topic;
}

static double seconds(clockid_t clock) {
    struct timespec now;
    if (clock_gettime(clock, &now))
        fail("clock_gettime", "the process is gone");
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Process ids as "1,2,3"; "0" for none. */
static void watch_brokers(char *text) {
    for (char *part = strtok(text, ","); part; part = strtok(NULL, ",")) {
        if (broker_count == BROKERS_MAX)
            fail("usage", "too many brokers to watch");
        if (atol(part))
            brokers[broker_count++] = (pid_t)atol(part);
    }
}

/* The CPU clocks of whole processes, dead threads included: what clock_getcpuclockid() computes. */
static void read_broker_cpu(double *times) {
    for (int i = 0; i < broker_count; i++)
        times[i] = seconds((clockid_t)((~(unsigned)brokers[i]) << 3 | 2));
}

static void print_broker_cpu(const double *before, const double *after) {
    printf("\"broker_cpu_seconds\": [");
    for (int i = 0; i < broker_count; i++)
        printf("%s%.6f", i ? ", " : "", after[i] - before[i]);
    printf("], ");
}
