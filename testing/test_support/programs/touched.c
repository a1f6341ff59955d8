// SPDX-License-Identifier: Apache-2.0
/* Reports changes of the state that all code of a process shares: log levels, signal handlers, and the environment.
 * This library is preloaded into the process (LD_PRELOAD). For each call that changes this state, it prints a line on
 * standard error: `touched: FUNCTION WHAT`.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define NEXT(name) static __typeof__(name) *next; if (!next) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* rcutils/logging.h */
int rcutils_logging_set_logger_level(const char *name, int level);
void rcutils_logging_set_default_logger_level(int level);

int rcutils_logging_set_logger_level(const char *name, int level)
{
    NEXT(rcutils_logging_set_logger_level);
    fprintf(stderr, "touched: rcutils_logging_set_logger_level %s\n", name);
    return next(name, level);
}

void rcutils_logging_set_default_logger_level(int level)
{
    NEXT(rcutils_logging_set_default_logger_level);
    fprintf(stderr, "touched: rcutils_logging_set_default_logger_level %d\n", level);
    next(level);
}

int sigaction(int number, const struct sigaction *restrict action, struct sigaction *restrict before)
{
    NEXT(sigaction);
    if (action)
        fprintf(stderr, "touched: sigaction %d\n", number);
    return next(number, action, before);
}

sighandler_t signal(int number, sighandler_t handler)
{
    NEXT(signal);
    fprintf(stderr, "touched: signal %d\n", number);
    return next(number, handler);
}

int setenv(const char *name, const char *value, int overwrite)
{
    NEXT(setenv);
    fprintf(stderr, "touched: setenv %s\n", name);
    return next(name, value, overwrite);
}

int unsetenv(const char *name)
{
    NEXT(unsetenv);
    fprintf(stderr, "touched: unsetenv %s\n", name);
    return next(name);
}

int putenv(char *variable)
{
    NEXT(putenv);
    fprintf(stderr, "touched: putenv %s\n", variable);
    return next(variable);
}
