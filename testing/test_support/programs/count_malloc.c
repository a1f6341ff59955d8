// SPDX-License-Identifier: Apache-2.0
/* Counts the allocations of each thread of a process. This library is preloaded into the process (LD_PRELOAD). It also
 * stores the count of a thread before each message that the thread takes, and counts the allocations of the preloaded
 * statistics (libtopic_statistics_preload.so) separately.
 *
 * The allocations of Rust, C and C++ are counted. The original functions are called by libc's internal names, because a
 * lookup by dlsym would itself allocate.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS 512
#define MESSAGES 4096

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t number, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

/* All threads that have allocated something, including threads that have ended. */
static struct thread {
    _Atomic pid_t id;
    _Atomic unsigned long long allocations, of_statistics;
    /* The number of messages that the thread took, and its count before each of the last messages. */
    _Atomic unsigned long long taken;
    _Atomic unsigned long long at[MESSAGES];
} threads[THREADS];
static _Atomic unsigned used;

/* With initial-exec, this memory exists from the start of a thread, so an access allocates nothing. */
static _Thread_local struct thread *this_thread __attribute__((tls_model("initial-exec")));

/* The addresses between which the code of the preloaded statistics lies. */
static uintptr_t statistics_start, statistics_end;

static int find_statistics(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    if (strstr(info->dlpi_name, "libtopic_statistics_preload.so"))
        for (int i = 0; i < info->dlpi_phnum; i++)
            if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
                statistics_start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
                statistics_end = statistics_start + info->dlpi_phdr[i].p_memsz;
            }
    return 0;
}

__attribute__((constructor)) static void begin(void)
{
    dl_iterate_phdr(find_statistics, NULL);
}

static void count(const void *caller)
{
    if (!this_thread) {
        unsigned place = atomic_fetch_add(&used, 1);
        this_thread = &threads[place < THREADS ? place : THREADS - 1];
        this_thread->id = syscall(SYS_gettid);
    }
    atomic_fetch_add_explicit(&this_thread->allocations, 1, memory_order_relaxed);
    if (statistics_start <= (uintptr_t)caller && (uintptr_t)caller < statistics_end)
        atomic_fetch_add_explicit(&this_thread->of_statistics, 1, memory_order_relaxed);
}
#define COUNT() count(__builtin_return_address(0))

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

/* Returns the number of allocations that the preloaded statistics have made on this thread so far. */
unsigned long long allocations_of_statistics(void)
{
    return this_thread ? this_thread->of_statistics : 0;
}

/* Returns the number of messages that a thread has taken so far. */
unsigned long long messages_taken(pid_t id)
{
    struct thread *thread = find(id);
    return thread ? thread->taken : 0;
}

/* Returns the allocations of a thread before it took this message. Only the last MESSAGES are known. */
unsigned long long allocations_before(pid_t id, unsigned long long message)
{
    struct thread *thread = find(id);
    return thread ? thread->at[message % MESSAGES] : 0;
}

/* Takes a message. See rcl/subscription.h. */
int rcl_take(const void *subscription, void *message, void *info, void *allocation)
{
    static int (*next)(const void *, void *, void *, void *);
    if (!next) {
        void *found = dlsym(RTLD_NEXT, "rcl_take");
        if (!found) /* Python opens librcl with RTLD_LOCAL, so RTLD_NEXT does not find it. */
            found = dlsym(dlopen("librcl.so", RTLD_LAZY | RTLD_NOLOAD), "rcl_take");
        next = (int (*)(const void *, void *, void *, void *))found;
    }
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
    COUNT();
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
    COUNT();
    return __libc_calloc(number, size);
}

void *realloc(void *old, size_t size)
{
    COUNT();
    return __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size)
{
    COUNT();
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    COUNT();
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    COUNT();
    *memory = __libc_memalign(alignment, size);
    return *memory ? 0 : ENOMEM;
}
