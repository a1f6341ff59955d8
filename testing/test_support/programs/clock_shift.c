// SPDX-License-Identifier: Apache-2.0
/* Shifts the clocks of a process. This library is preloaded into the process (LD_PRELOAD). A test changes the shift
 * while the process runs.
 *
 * CLOCK_SHIFT is the path of a file of two int64 in the machine's byte order. The file is mapped shared, so every
 * process that maps the file sees a change at once, without a system call:
 *
 *   [0]  nanoseconds that are added to CLOCK_REALTIME and related clocks: a step of the system clock
 *   [1]  nanoseconds that are added to CLOCK_BOOTTIME: together with the same value in [0], a suspend
 *
 * A wait until a time of a shifted clock ends as on a machine whose clock was shifted before the wait. This also
 * applies to the futexes of Rust's std, which are system calls through libc's function syscall().
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const int64_t no_shift[2];
static const volatile int64_t *shift = no_shift;

__attribute__((constructor)) static void map_shift(void)
{
    const char *path = getenv("CLOCK_SHIFT");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *map = mmap(NULL, sizeof no_shift, PROT_READ, MAP_SHARED, file, 0);
    if (map != MAP_FAILED)
        shift = map;
    close(file);
}

/* Declares the original function of this name, which is in a library after this one. */
#define NEXT(name)                                                                                                     \
    static __typeof__(name) *next;                                                                                     \
    if (!next)                                                                                                         \
    next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static int next_clock_gettime(clockid_t clock, struct timespec *time)
{
    NEXT(clock_gettime);
    return next(clock, time);
}

static void add(struct timespec *time, int64_t nanoseconds)
{
    int64_t sum = time->tv_sec * SECOND + time->tv_nsec + nanoseconds;
    time->tv_sec = sum / SECOND - (sum % SECOND < 0);
    time->tv_nsec = (sum % SECOND + SECOND) % SECOND;
}

/* Returns the present shift of a clock: the nanoseconds that are added to its time. */
static int64_t shift_of(clockid_t clock)
{
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_REALTIME_ALARM:
    case CLOCK_TAI:
        return shift[0];
    case CLOCK_BOOTTIME:
    case CLOCK_BOOTTIME_ALARM:
        return shift[1];
    default:
        return 0;
    }
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int result = next_clock_gettime(clock, time);
    if (!result)
        add(time, shift_of(clock));
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    (void)zone; /* obsolete */
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    *time = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return result;
}

time_t time(time_t *seconds)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (seconds)
        *seconds = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *time, int base)
{
    return base == TIME_UTC && !clock_gettime(CLOCK_REALTIME, time) ? base : 0;
}

/* Converts a deadline on a shifted clock to the time of the kernel's clock at this moment. */
static struct timespec unshifted(clockid_t clock, const struct timespec *deadline)
{
    struct timespec kernels = *deadline;
    add(&kernels, -shift_of(clock));
    return kernels;
}

/* Returns the clock of a deadline. The clock of a condition variable cannot be read, but the size of the deadline shows
 * the clock: times of CLOCK_MONOTONIC are far below the system time of 2001. */
static clockid_t clock_of(const struct timespec *deadline)
{
    return deadline->tv_sec > 1000000000 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict deadline)
{
    NEXT(pthread_cond_timedwait);
    struct timespec kernels = unshifted(clock_of(deadline), deadline);
    return next(condition, mutex, &kernels);
}

int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, clockid_t clock,
                           const struct timespec *restrict deadline)
{
    NEXT(pthread_cond_clockwait);
    struct timespec kernels = unshifted(clock, deadline);
    return next(condition, mutex, clock, &kernels);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict deadline)
{
    NEXT(pthread_mutex_timedlock);
    struct timespec kernels = unshifted(CLOCK_REALTIME, deadline);
    return next(mutex, &kernels);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline)
{
    NEXT(sem_timedwait);
    struct timespec kernels = unshifted(CLOCK_REALTIME, deadline);
    return next(semaphore, &kernels);
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict deadline)
{
    NEXT(sem_clockwait);
    struct timespec kernels = unshifted(clock, deadline);
    return next(semaphore, clock, &kernels);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *rest)
{
    NEXT(clock_nanosleep);
    struct timespec kernels = flags & TIMER_ABSTIME ? unshifted(clock, time) : *time;
    return next(clock, flags, &kernels, rest);
}

/* All possible arguments are passed on, because no system call has more. */
long syscall(long number, ...)
{
    NEXT(syscall);
    long arguments[6];
    va_list list;
    va_start(list, number);
    for (int index = 0; index < 6; index++)
        arguments[index] = va_arg(list, long);
    va_end(list);
    struct timespec kernels;
    /* FUTEX_WAIT gets the length of the wait, which needs no shift. FUTEX_WAIT_BITSET gets the end of the wait. */
    if (number == SYS_futex && (arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET && arguments[3]) {
        clockid_t clock = arguments[1] & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC;
        kernels = unshifted(clock, (const struct timespec *)arguments[3]);
        arguments[3] = (long)&kernels;
    }
    return next(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}
