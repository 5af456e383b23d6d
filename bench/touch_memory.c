/* Writes to every page of that many megabytes and gives them back, so that the pages the next program gets are pages
 * the host has already handed to this machine: the first write to any other costs several times as much.
 *
 *   touch_memory MEGABYTES
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    size_t bytes = (size_t)atol(argv[1]) * 1000 * 1000;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("touch_memory");
        return 1;
    }
    madvise(memory, bytes, MADV_HUGEPAGE); /* a fault per 2 MiB is quicker; where there are none it changes nothing */
    for (size_t i = 0; i < bytes; i += 4096)
        memory[i] = 1;
    return 0;
}
