// SPDX-License-Identifier: Apache-2.0
/* Counts the allocations of a process, for each thread. It is preloaded into the process (LD_PRELOAD). It also stores
 * the count of a thread at each message that the thread takes.
 *
 * The allocations of Rust, C and C++ are counted. The original functions are called by libc's internal names, so no
 * lookup by dlsym, which would allocate, is needed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS 512
#define MESSAGES 4096

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t number, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

/* All threads that have allocated, also those that have ended. */
static struct thread {
    _Atomic pid_t id;
    _Atomic unsigned long long allocations;
    /* The number of messages taken, and the allocations before each of the last messages. */
    _Atomic unsigned long long taken;
    _Atomic unsigned long long at[MESSAGES];
} threads[THREADS];
static _Atomic unsigned used;

/* Initial-exec memory exists from the start of a thread: an access allocates nothing. The library is loaded first. */
static _Thread_local struct thread *this_thread __attribute__((tls_model("initial-exec")));

static void count(void)
{
    if (!this_thread) {
        unsigned place = atomic_fetch_add(&used, 1);
        this_thread = &threads[place < THREADS ? place : THREADS - 1];
        this_thread->id = syscall(SYS_gettid);
    }
    atomic_fetch_add_explicit(&this_thread->allocations, 1, memory_order_relaxed);
}

static struct thread *find(pid_t id)
{
    for (unsigned place = 0; place < used && place < THREADS; place++)
        if (threads[place].id == id)
            return &threads[place];
    return NULL;
}

/* Returns the number of allocations of a thread so far. */
unsigned long long allocations(pid_t id)
{
    struct thread *thread = find(id);
    return thread ? thread->allocations : 0;
}

/* Returns the number of messages that a thread has taken so far. */
unsigned long long messages_taken(pid_t id)
{
    struct thread *thread = find(id);
    return thread ? thread->taken : 0;
}

/* Returns the number of allocations of a thread before it took a message, which is one of its last MESSAGES. */
unsigned long long allocations_before(pid_t id, unsigned long long message)
{
    struct thread *thread = find(id);
    return thread ? thread->at[message % MESSAGES] : 0;
}

/* Takes a message. See rcl/subscription.h. */
int rcl_take(const void *subscription, void *message, void *info, void *allocation)
{
    static int (*next)(const void *, void *, void *, void *);
    if (!next)
        next = (int (*)(const void *, void *, void *, void *))dlsym(RTLD_NEXT, "rcl_take");
    unsigned long long before = this_thread ? this_thread->allocations : 0;
    int result = next(subscription, message, info, allocation);
    if (!result && this_thread) {
        this_thread->at[this_thread->taken % MESSAGES] = before;
        this_thread->taken++;
    }
    return result;
}

void *malloc(size_t size)
{
    count();
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
    count();
    return __libc_calloc(number, size);
}

void *realloc(void *old, size_t size)
{
    count();
    return __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size)
{
    count();
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    *memory = memalign(alignment, size);
    return *memory ? 0 : ENOMEM;
}
