/* mem.c — see mem.h. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

static atomic_uint_fast64_t n_alloc;

static void *counted(void *ptr, int wanted) {
    BUG_ON(!ptr && wanted); /* out of memory for a small object: nothing sensible is left to do */
    atomic_fetch_add_explicit(&n_alloc, 1, memory_order_relaxed);
    return ptr;
}

void *xmalloc(size_t size) { return counted(malloc(size), size != 0); }
void *xcalloc(size_t count, size_t size) { return counted(calloc(count, size), count && size); }
void *xrealloc(void *ptr, size_t size) { return counted(realloc(ptr, size), size != 0); }
void xfree(void *ptr) { free(ptr); }

char *xstrdup(const char *s) {
    size_t n = strlen(s) + 1;
    return memcpy(xmalloc(n), s, n);
}

enum { LARGE_PAGE = 2 << 20 };

/* Large blocks ask for large pages: a cache of keys and values or a matrix of weights has more
 * small pages than the processor remembers translations for. This is only a hint. */
static void *take_block(size_t size, size_t large) {
    if (size > SIZE_MAX / 2) return NULL;
    atomic_fetch_add_explicit(&n_alloc, 1, memory_order_relaxed);
    size_t align = size >= large ? LARGE_PAGE : MEM_ALIGN;
    size = (size + align - 1) & ~(align - 1);
    void *block = aligned_alloc(align, size ? size : MEM_ALIGN);
    if (block && align == LARGE_PAGE) madvise(block, size, MADV_HUGEPAGE);
    return block;
}

void *mem_block(size_t size) { return take_block(size, 4 * (size_t)LARGE_PAGE); }

void mem_block_free(void *block) { free(block); }

void *xmalloc_dense(size_t size) {
    void *block = take_block(size, LARGE_PAGE / 2);
    BUG_ON(!block);
    return block;
}

/* The number after `key` at the start of a line of a small file, or -1. An empty key: the first
 * line. */
static long long number_in(const char *path, const char *key) {
    FILE *f = fopen(path, "re");
    if (!f) return -1;
    char line[256];
    long long value = -1;
    while (value < 0 && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0) {
            char *end;
            long long v = strtoll(line + strlen(key), &end, 10);
            if (end != line + strlen(key) && v >= 0) value = v;
        }
    fclose(f);
    return value;
}

static size_t smaller(size_t a, long long b) {
    return b >= 0 && (unsigned long long)b < a ? (size_t)b : a;
}

/* A kind of control groups: where they are mounted, what /proc/self/cgroup calls them, and their
 * files. Of what a group uses, contents of files that nobody looked at lately can be had back. */
struct groups {
    const char *root, *name, *most, *used, *idle;
};

static const struct groups groups[] = {
    {"/sys/fs/cgroup", "", "memory.max", "memory.current", "inactive_file "},
    {"/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_inactive_file "},
};

enum { PATH_ROOM = 1024 };

/* The number in dir/file; -1, too, where that is too long to be a path. */
static long long number_of(const char *dir, const char *file, const char *key) {
    char path[PATH_ROOM + 64];
    int n = snprintf(path, sizeof path, "%s/%s", dir, file);
    return n < (int)sizeof path ? number_in(path, key) : -1;
}

static long long left_in(const struct groups *g, const char *dir) {
    long long most = number_of(dir, g->most, ""), used = number_of(dir, g->used, "");
    if (most < 0 || used < 0) return -1;
    long long idle = number_of(dir, "memory.stat", g->idle);
    if (idle > 0) used -= idle < used ? idle : used;
    return most > used ? most - used : 0;
}

/* The group of this process, "/..." below their root; else "". Lines are number:names:path. */
static void own_group(const struct groups *g, char *path, size_t size) {
    char line[PATH_ROOM];
    FILE *f = fopen("/proc/self/cgroup", "re");
    *path = 0;
    while (f && fgets(line, sizeof line, f)) {
        char *name = strchr(line, ':'), *at = name ? strchr(name + 1, ':') : NULL;
        if (!at || !strchr(at, '\n')) continue;
        *at++ = 0;
        at[strcspn(at, "\n")] = 0;
        if (strcmp(name + 1, g->name) == 0) snprintf(path, size, "%s", at);
    }
    if (f) fclose(f);
}

/* The least that the process's group or one of those around it leaves. Inside a container the path
 * may be one of the host's: then those that are there count, at least the root. */
static size_t groups_left(const struct groups *g, size_t bytes) {
    char own[PATH_ROOM], dir[PATH_ROOM];
    own_group(g, own, sizeof own);
    int n = snprintf(dir, sizeof dir, "%s%s", g->root, own);
    if (n >= (int)sizeof dir) snprintf(dir, sizeof dir, "%s", g->root);
    size_t root = strlen(g->root);
    for (;;) {
        bytes = smaller(bytes, left_in(g, dir));
        if (strlen(dir) <= root) return bytes;
        *strrchr(dir, '/') = 0;
    }
}

size_t mem_available(void) {
    size_t bytes = SIZE_MAX;
    long long kib = number_in("/proc/meminfo", "MemAvailable:");
    if (kib >= 0) bytes = smaller(bytes, kib * 1024);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        bytes = groups_left(&groups[i], bytes);
    struct rlimit limit;
    long long pages = number_in("/proc/self/statm", "");
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && pages >= 0) {
        long long mine = pages * 4096, cap = (long long)limit.rlim_cur;
        bytes = smaller(bytes, cap > mine ? cap - mine : 0);
    }
    return bytes;
}

uint64_t mem_count(void) { return atomic_load_explicit(&n_alloc, memory_order_relaxed); }

void *arena_take(struct arena *arena, size_t size) {
    size_t begin = size_add(arena->used, MEM_ALIGN - 1) & ~(size_t)(MEM_ALIGN - 1);
    arena->used = begin < arena->used ? SIZE_MAX : size_add(begin, size); /* saturated stays so */
    if (!arena->base) return NULL;
    BUG_ON(arena->used > arena->cap);
    return arena->base + begin;
}
