/* Sends one prepared request, small or large, again and again over many connections, one outstanding on each, and times
 * the answers.
 *
 *   request_sender PORT CONNECTIONS REQUESTS WARMUP FRAME_FILE ERROR_POSITION PIDS
 *
 * FRAME_FILE holds one whole frame with its length. ERROR_POSITION is where in an answer (after its length) the int16
 * error code lies; -1 looks at nothing. Prints one JSON object; PIDS, as in 1,2,3, are whose CPU clocks are read around
 * the timed part: the server's, and its followers'.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "unpaced.h"

#define ANSWER_MAX 4096
#define FRAME_MAX (2 << 20)
#define SILENCE_MS 10000

typedef struct {
    int fd;
    size_t sent, received;
    double sent_at;
    int waits_to_send;
    unsigned char answer[ANSWER_MAX];
} connection_t;

static unsigned char frame[FRAME_MAX];
static size_t frame_bytes;

static void fail(const char *what, const char *why) {
    fprintf(stderr, "request_sender: %s: %s\n", what, why);
    exit(1);
}

static double seconds(clockid_t clock) {
    struct timespec now;
    if (clock_gettime(clock, &now))
        fail("clock_gettime", "the process is gone");
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The CPU clocks of whole processes, dead threads included: what clock_getcpuclockid() computes. */
static double cpu_of(const char *pids) {
    double total = 0.0;
    for (const char *next = pids; next; next = strchr(next, ',')) {
        next += *next == ',';
        total += seconds((clockid_t)((~(unsigned)atol(next)) << 3 | 2));
    }
    return total;
}

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void open_connection(connection_t *connection, int port, int epoll) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connection->fd = socket(AF_INET, SOCK_STREAM, 0);
    send_unpaced(connection->fd);
    if (connection->fd < 0 || connect(connection->fd, (struct sockaddr *)&address, sizeof address))
        fail("connect", strerror(errno));
    int on = 1;
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(connection->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, connection->fd, &event))
        fail("epoll_ctl", strerror(errno));
}

/* Wait for room to send, or for an answer. */
static void watch(connection_t *connection, int epoll, int for_room) {
    if (connection->waits_to_send == for_room)
        return;
    connection->waits_to_send = for_room;
    struct epoll_event event = {.events = for_room ? EPOLLOUT : EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(epoll, EPOLL_CTL_MOD, connection->fd, &event))
        fail("epoll_ctl", strerror(errno));
}

/* Send what the socket takes; the rest when it has room again. */
static void send_more(connection_t *connection, int epoll) {
    while (connection->sent < frame_bytes) {
        ssize_t count = send(connection->fd, frame + connection->sent, frame_bytes - connection->sent, MSG_NOSIGNAL);
        if (count < 0 && errno == EAGAIN)
            break;
        if (count < 0 && errno != EINTR)
            fail("send", strerror(errno));
        if (count > 0)
            connection->sent += (size_t)count;
    }
    watch(connection, epoll, connection->sent < frame_bytes);
}

static void send_request(connection_t *connection, int epoll) {
    connection->sent = connection->received = 0;
    connection->sent_at = seconds(CLOCK_MONOTONIC);
    send_more(connection, epoll);
}

/* 1 when a whole answer is here. */
static int receive(connection_t *connection, long error_position) {
    ssize_t count = recv(connection->fd, connection->answer + connection->received, ANSWER_MAX - connection->received, 0);
    if (count == 0)
        fail("recv", "the server closed a connection");
    if (count < 0) {
        if (errno == EAGAIN || errno == EINTR)
            return 0;
        fail("recv", strerror(errno));
    }
    connection->received += (size_t)count;
    if (connection->received < 4)
        return 0;
    uint32_t length;
    memcpy(&length, connection->answer, 4);
    length = ntohl(length);
    if (length + 4 > ANSWER_MAX)
        fail("answer", "larger than expected");
    if (connection->received < length + 4)
        return 0;
    if (connection->received > length + 4)
        fail("answer", "more than one");
    if (error_position >= 0) {
        if ((size_t)error_position + 2 > length)
            fail("answer", "too short");
        const unsigned char *code = connection->answer + 4 + error_position;
        int error = code[0] << 8 | code[1];
        if (error) {
            char text[32];
            snprintf(text, sizeof text, "error code %d", error);
            fail("answer", text);
        }
    }
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 8)
        fail("usage", "PORT CONNECTIONS REQUESTS WARMUP FRAME_FILE ERROR_POSITION PIDS");
    int port = atoi(argv[1]), connections = atoi(argv[2]);
    long requests = atol(argv[3]), warmup = atol(argv[4]), error_position = atol(argv[6]);
    const char *server = argv[7];
    FILE *file = fopen(argv[5], "rb");
    if (!file)
        fail(argv[5], strerror(errno));
    frame_bytes = fread(frame, 1, FRAME_MAX, file);
    fclose(file);
    if (frame_bytes < 4 || frame_bytes == FRAME_MAX)
        fail(argv[5], "is no frame");

    int epoll = epoll_create1(0);
    connection_t *all = calloc((size_t)connections, sizeof *all);
    double *latencies = calloc((size_t)requests, sizeof *latencies);
    for (int i = 0; i < connections; i++)
        open_connection(&all[i], port, epoll);

    long total = warmup + requests, sent = 0, answered = 0;
    double started = 0, server_cpu = 0, client_cpu = 0, now = 0;
    for (int i = 0; i < connections && sent < total; i++, sent++)
        send_request(&all[i], epoll);
    struct epoll_event events[256];
    while (answered < total) {
        int ready = epoll_wait(epoll, events, 256, SILENCE_MS);
        if (ready == 0)
            fail("epoll_wait", "no answer for ten seconds");
        if (ready < 0 && errno != EINTR)
            fail("epoll_wait", strerror(errno));
        for (int i = 0; i < ready && answered < total; i++) {
            connection_t *connection = events[i].data.ptr;
            if (connection->waits_to_send) {
                send_more(connection, epoll);
                continue;
            }
            if (!receive(connection, error_position))
                continue;
            now = seconds(CLOCK_MONOTONIC);
            if (answered >= warmup)
                latencies[answered - warmup] = now - connection->sent_at;
            if (++answered == warmup) {
                started = now;
                server_cpu = cpu_of(server);
                client_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
            }
            if (sent < total) {
                sent++;
                send_request(connection, epoll);
            }
        }
    }
    server_cpu = cpu_of(server) - server_cpu;
    client_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - client_cpu;
    qsort(latencies, (size_t)requests, sizeof *latencies, ascending);
    printf("{\"seconds\": %.6f, \"requests\": %ld, \"server_cpu_seconds\": %.6f, \"client_cpu_seconds\": %.6f, "
           "\"p50_us\": %.0f, \"p99_us\": %.0f}\n",
           now - started, requests, server_cpu, client_cpu, latencies[requests / 2] * 1e6,
           latencies[requests * 99 / 100] * 1e6);
    return 0;
}
