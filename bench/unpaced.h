/* What the bench's clients send is sent at once, to either system.
 *
 * Where the system's congestion control paces (BBR), a client on the same machine is the limit: librdkafka spent a tenth
 * more CPU time, one broker of either system took less, and Kafka's spent a third more on the small pieces that came.
 * Chosen before there is a connection, because an algorithm that paces leaves its timers to the one that replaces it.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

static void send_unpaced(int fd) {
#ifdef TCP_CONGESTION
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
#endif
}
