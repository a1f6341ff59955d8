// SPDX-License-Identifier: Apache-2.0
/* Simulates a middleware that logs to standard output, like Zenoh: when the context is created, and every 10 ms from a
 * separate thread. This library is preloaded into the process (LD_PRELOAD).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *log_on(void *nothing)
{
    for (;;) {
        printf("noise: from a thread\n");
        fflush(stdout);
        usleep(10000);
    }
    return nothing;
}

/* rcl/init.h */
int rcl_init(int argc, char const *const *argv, const void *options, void *context)
{
    /* Python loads rcl with RTLD_LOCAL, so RTLD_NEXT does not find it. */
    void *rcl = dlopen("librcl.so", RTLD_LAZY | RTLD_NOLOAD);
    int (*next)(int, char const *const *, const void *, void *) =
        (int (*)(int, char const *const *, const void *, void *))dlsym(rcl, "rcl_init");
    printf("noise: from rcl_init\n");
    fflush(stdout);
    pthread_t thread;
    pthread_create(&thread, NULL, log_on, NULL);
    return next(argc, argv, options, context);
}
