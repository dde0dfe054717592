/* A disk that fails, and one that remembers: loaded before libc (LD_PRELOAD).
 *
 * Calls on files below $PYHUDI_DISK_ROOT are counted.  disk_arm(k, err, after) makes call k (from 0)
 * return `err`: instead of its work, or (after = 1) once the work is done.  With $PYHUDI_DISK_LOG
 * set each call that changes names or makes bytes durable is appended to that file as a line
 *
 *     verb <tab> path <tab> second path, or the number of the copy of a file's bytes
 *
 * and every fsync of a file copies its bytes to <log>.<number>.  Tests only.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_long calls, copies;
static long stop = -1;
static int failure, fails_after;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

void disk_arm(long k, int err, int after) {
    atomic_store(&calls, 0);
    stop = k;
    failure = err;
    fails_after = after;
}

long disk_calls(void) { return atomic_load(&calls); }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int below_root(const char *path) {
    const char *root = getenv("PYHUDI_DISK_ROOT");
    return root && path && strncmp(path, root, strlen(root)) == 0;
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = 0;
    return below_root(path);
}

/* 0: go on; 1: fail now; 2: fail once the work is done. */
static int verdict(void) {
    if (atomic_fetch_add(&calls, 1) != stop || stop < 0) return 0;
    return fails_after ? 2 : 1;
}

static void record(const char *verb, const char *path, const char *more) {
    const char *log = getenv("PYHUDI_DISK_LOG");
    if (!log) return;
    pthread_mutex_lock(&turn);
    FILE *file = fopen(log, "a");
    if (file) {
        fprintf(file, "%s\t%s\t%s\n", verb, path, more);
        fclose(file);
    }
    pthread_mutex_unlock(&turn);
}

static void record_bytes(const char *path) {
    const char *log = getenv("PYHUDI_DISK_LOG");
    if (!log) return;
    char number[32], name[PATH_MAX], chunk[1 << 16];
    snprintf(number, sizeof number, "%ld", atomic_fetch_add(&copies, 1));
    snprintf(name, sizeof name, "%s.%s", log, number);
    FILE *from = fopen(path, "rb"), *to = fopen(name, "wb");
    for (size_t n; from && to && (n = fread(chunk, 1, sizeof chunk, from)) > 0;)
        fwrite(chunk, 1, n, to);
    if (from) fclose(from);
    if (to) fclose(to);
    record("fsync", path, number);
}

#define GUARDED(mine, work, type, bad)             \
    int how = (mine) ? verdict() : 0;              \
    if (how == 1) { errno = failure; return bad; } \
    type result = (work);                          \
    if (how == 2) { errno = failure; return bad; } \
    return result

#define OPENING(name, folder, path, flags, call)                                          \
    int mine = below_root(path), made = mine && ((flags) & O_CREAT) && access(path, F_OK); \
    int how = mine ? verdict() : 0;                                                       \
    if (how == 1) { errno = failure; return -1; }                                         \
    int fd = call;                                                                        \
    if (fd >= 0 && made) record("create", path, "");                                      \
    if (how == 2) { if (fd >= 0) REAL(close)(fd); errno = failure; return -1; }           \
    return fd

static mode_t mode_of(int flags, va_list *more) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(*more, mode_t) : 0;
}

#define OPEN(name)                                                               \
    int name(const char *path, int flags, ...) {                                 \
        va_list more;                                                            \
        va_start(more, flags);                                                   \
        mode_t mode = mode_of(flags, &more);                                     \
        va_end(more);                                                            \
        OPENING(name, AT_FDCWD, path, flags, REAL(name)(path, flags, mode));     \
    }
#define OPENAT(name)                                                                   \
    int name(int folder, const char *path, int flags, ...) {                           \
        va_list more;                                                                  \
        va_start(more, flags);                                                         \
        mode_t mode = mode_of(flags, &more);                                           \
        va_end(more);                                                                  \
        OPENING(name, folder, path, flags, REAL(name)(folder, path, flags, mode));     \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

static int fd_below(int fd) {
    char path[PATH_MAX];
    return path_of(fd, path);
}

ssize_t write(int fd, const void *data, size_t n) {
    GUARDED(fd_below(fd), REAL(write)(fd, data, n), ssize_t, -1);
}
ssize_t pread(int fd, void *data, size_t n, off_t at) {
    GUARDED(fd_below(fd), REAL(pread)(fd, data, n, at), ssize_t, -1);
}
ssize_t pread64(int fd, void *data, size_t n, off64_t at) {
    GUARDED(fd_below(fd), REAL(pread64)(fd, data, n, at), ssize_t, -1);
}
ssize_t read(int fd, void *data, size_t n) {
    GUARDED(fd_below(fd), REAL(read)(fd, data, n), ssize_t, -1);
}

int fsync(int fd) {
    char path[PATH_MAX];
    int mine = path_of(fd, path), how = mine ? verdict() : 0;
    if (how == 1) { errno = failure; return -1; }
    int result = REAL(fsync)(fd);
    struct stat facts;
    if (mine && result == 0 && fstat(fd, &facts) == 0) {
        if (S_ISDIR(facts.st_mode)) record("fsync-folder", path, "");
        else record_bytes(path);
    }
    if (how == 2) { errno = failure; return -1; }
    return result;
}

static int renamed(const char *verb, const char *from, const char *to, int how, int result) {
    if (how >= 0 && result == 0) record(verb, from, to);
    if (how == 2) { errno = failure; return -1; }
    return result;
}

#define TWO_NAMES(name, verb)                                              \
    int name(const char *from, const char *to) {                           \
        int mine = below_root(to), how = mine ? verdict() : -1;            \
        if (how == 1) { errno = failure; return -1; }                      \
        return renamed(verb, from, to, how, REAL(name)(from, to));         \
    }
TWO_NAMES(link, "link")
TWO_NAMES(rename, "rename")

int linkat(int a, const char *from, int b, const char *to, int flags) {
    int mine = below_root(to), how = mine ? verdict() : -1;
    if (how == 1) { errno = failure; return -1; }
    return renamed("link", from, to, how, REAL(linkat)(a, from, b, to, flags));
}

#define ONE_NAME(name, verb, declared, given)                      \
    int name declared {                                            \
        int mine = below_root(path), how = mine ? verdict() : -1;  \
        if (how == 1) { errno = failure; return -1; }              \
        return renamed(verb, path, "", how, REAL(name) given);     \
    }
ONE_NAME(unlink, "unlink", (const char *path), (path))
ONE_NAME(rmdir, "rmdir", (const char *path), (path))
ONE_NAME(mkdir, "mkdir", (const char *path, mode_t mode), (path, mode))

DIR *opendir(const char *path) {
    GUARDED(below_root(path), REAL(opendir)(path), DIR *, NULL);
}
