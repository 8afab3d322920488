/* A clock of the day that is set by hand, for Python, SQLite and libraries alike; no other clock. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long long ahead = 0, still = 0;

static long long now(void) {
    static int (*real)(clockid_t, struct timespec *);
    struct timespec time;
    if (still) return still + ahead;
    if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, "clock_gettime");
    real(CLOCK_REALTIME, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec + ahead;
}

/* Begin as far ahead as the environment says. */
__attribute__((constructor)) static void begin(void) {
    const char *said = getenv("CLOCK_AHEAD");
    if (said) ahead = atoll(said);
}

/* Be so many nanoseconds ahead of the real time. */
void clock_set(long long nanoseconds) { ahead = nanoseconds; }

/* Stand still, or go on. */
void clock_stop(int stop) {
    still = 0;
    if (stop) still = now() - ahead;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
        long long moment = now();
        time->tv_sec = moment / 1000000000LL;
        time->tv_nsec = moment % 1000000000LL;
        return 0;
    }
    if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, "clock_gettime");
    return real(clock, time);
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    long long moment = now();
    (void)zone;
    time->tv_sec = moment / 1000000000LL;
    time->tv_usec = moment % 1000000000LL / 1000;
    return 0;
}

time_t time(time_t *told) {
    time_t moment = now() / 1000000000LL;
    if (told) *told = moment;
    return moment;
}
