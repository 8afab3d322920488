/* Makes the n-th system call of one kind fail, on files whose path holds "db.sqlite" alone. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { NONE, WRITE, SYNC, TRUNCATE, LOCK, SHORT };

static int kind = NONE, fatal = 0, lasting = 0, number = 0, seen = 0;

/* Fail the n-th call of that kind with that errno, and where `last` is set all after it. */
void fault_arm(int what, int n, int error, int last) {
    kind = NONE;
    seen = 0;
    fatal = n;
    number = error;
    lasting = last;
    kind = what;
}

/* Fail nothing more; return how many calls of that kind there were. */
int fault_disarm(void) {
    kind = NONE;
    return seen;
}

static int ours(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strstr(path, "db.sqlite") != NULL;
}

static int fails(int what, int fd) {
    if (kind != what || !ours(fd)) return 0;
    seen++;
    if (seen != fatal && !(lasting && seen > fatal)) return 0;
    errno = number;
    return 1;
}

/* A write that is cut short, once, is no error: the rest has to be written. */
static size_t allowed(int fd, size_t count) {
    if (kind != SHORT || count < 2 || !ours(fd)) return count;
    return ++seen == fatal ? count / 2 : count;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t count) {
    REAL(write);
    if (fails(WRITE, fd)) return -1;
    return real(fd, data, allowed(fd, count));
}

ssize_t pwrite(int fd, const void *data, size_t count, off_t at) {
    REAL(pwrite);
    if (fails(WRITE, fd)) return -1;
    return real(fd, data, allowed(fd, count), at);
}

ssize_t pwrite64(int fd, const void *data, size_t count, off64_t at) {
    REAL(pwrite64);
    if (fails(WRITE, fd)) return -1;
    return real(fd, data, allowed(fd, count), at);
}

int fsync(int fd) {
    REAL(fsync);
    return fails(SYNC, fd) ? -1 : real(fd);
}

int fdatasync(int fd) {
    REAL(fdatasync);
    return fails(SYNC, fd) ? -1 : real(fd);
}

int ftruncate(int fd, off_t length) {
    REAL(ftruncate);
    return fails(TRUNCATE, fd) ? -1 : real(fd, length);
}

int ftruncate64(int fd, off64_t length) {
    REAL(ftruncate64);
    return fails(TRUNCATE, fd) ? -1 : real(fd, length);
}

/* Taking a lock may fail. Giving one up does not where files are local: neither letting go nor going
   back from the exclusive lock of a rollback journal, taken on this range, to a shared one. */
static int locks(int fd, int command, const struct flock *lock) {
    static int exclusive = 0;
    const off_t shared = 0x40000000 + 2;
    if (command != F_SETLK || lock->l_type == F_UNLCK) return 0;
    if (lock->l_type == F_RDLCK && lock->l_start == shared && exclusive) {
        exclusive = 0;
        return 0;
    }
    if (fails(LOCK, fd)) return 1;
    if (lock->l_type == F_WRLCK && lock->l_start == shared) exclusive = 1;
    return 0;
}

int fcntl(int fd, int command, ...) {
    REAL(fcntl);
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return locks(fd, command, argument) ? -1 : real(fd, command, argument);
}

int fcntl64(int fd, int command, ...) {
    REAL(fcntl64);
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return locks(fd, command, argument) ? -1 : real(fd, command, argument);
}
