// SPDX-License-Identifier: Apache-2.0
/* A program that uses the middleware that does nothing (null_rmw.c). The program executes its argument, one letter per
 * action, prints the letters, and ends. It opens the library that MIDDLEWARE names, or is linked to this library.
 *
 *   l n g m  opens the middleware: lazily or now, locally or globally, in a new namespace;  c  closes it
 *   e d      creates a node with an endpoint of each kind, or destroys them;  u  uses all endpoints
 *   T        starts a thread that takes messages until the end
 *   w        waits for some windows
 *   a        registers an exit handler (also for quick_exit) that uses all endpoints
 *   F        starts a thread that forks 100 children, each of which creates all and ends;  j  waits for the thread
 *   f        forks: the child executes the rest; then its status is printed, and the parent executes the rest
 *   x        executes this program with the rest
 *
 * The last letter is the end: r returns from main, t exits in another thread, _ calls _exit, A abort, Q quick_exit, K
 * and I are killed (SIGKILL, SIGTERM). A destructor of the program uses the endpoints, if they exist.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* After this number of seconds, an alarm ends a process that hangs. Forked children also set the alarm. */
#define LIMIT 60

static void *middleware;
static int has_endpoints;

static void print(const char *text)
{
    if (write(1, text, strlen(text)) < 0)
        _exit(99);
}

static void call(const char *name)
{
    void (*function)(void) = (void (*)(void))dlsym(middleware ? middleware : RTLD_DEFAULT, name);
    if (!function) {
        print(dlerror());
        _exit(98);
    }
    function();
}

static void use(void)
{
    if (has_endpoints) {
        call("use_all");
        print("used ");
    }
}

__attribute__((destructor)) static void destruct(void)
{
    use();
}

static void *take(void *unused)
{
    void (*function)(void) = (void (*)(void))dlsym(middleware ? middleware : RTLD_DEFAULT, "take_one");
    for (;;) {
        function();
        usleep(100);
    }
    return unused;
}

static void *fork_children(void *unused)
{
    void (*create_all)(void) = (void (*)(void))dlsym(middleware ? middleware : RTLD_DEFAULT, "create_all");
    for (int i = 0; i < 100; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            alarm(5);
            create_all();
            _exit(0);
        }
        waitpid(child, &status, 0);
        if (status)
            print("a child failed ");
    }
    return unused;
}

static void *exit_here(void *unused)
{
    exit(5);
    return unused;
}

static void open_middleware(int flags)
{
    middleware = flags < 0 ? dlmopen(LM_ID_NEWLM, getenv("MIDDLEWARE"), RTLD_NOW) : dlopen(getenv("MIDDLEWARE"), flags);
    if (!middleware) {
        print(dlerror());
        _exit(97);
    }
}

static void fork_here(void)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        alarm(LIMIT);
        print("(");
        return;
    }
    waitpid(child, &status, 0);
    char text[32];
    snprintf(text, sizeof text, "%x) ", status);
    print(text);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    alarm(LIMIT);
    for (char *step = argv[argc - 1]; *step; step++) {
        char name[] = {*step, ' ', 0};
        print(name);
        switch (*step) {
        case 'l':
            open_middleware(RTLD_LAZY | RTLD_LOCAL);
            break;
        case 'n':
            open_middleware(RTLD_NOW | RTLD_LOCAL);
            break;
        case 'g':
            open_middleware(RTLD_LAZY | RTLD_GLOBAL);
            break;
        case 'm':
            open_middleware(-1);
            break;
        case 'c':
            dlclose(middleware);
            middleware = NULL;
            has_endpoints = 0;
            break;
        case 'e':
            call("create_all");
            has_endpoints = 1;
            break;
        case 'd':
            call("destroy_all");
            has_endpoints = 0;
            break;
        case 'u':
            use();
            break;
        case 'T':
            pthread_create(&thread, NULL, take, NULL);
            break;
        case 'F':
            pthread_create(&thread, NULL, fork_children, NULL);
            break;
        case 'j':
            pthread_join(thread, NULL);
            break;
        case 'w':
            usleep(3000);
            break;
        case 'a':
            atexit(use);
            at_quick_exit(use);
            break;
        case 'f':
            fork_here();
            break;
        case 'x':
            execl("/proc/self/exe", argv[0], step + 1, NULL);
            break;
        case 'r':
            return 3;
        case 't':
            pthread_create(&thread, NULL, exit_here, NULL);
            for (;;)
                pause();
        case '_':
            _exit(4);
        case 'A':
            abort();
        case 'Q':
            quick_exit(6);
        case 'K':
            kill(getpid(), SIGKILL);
            break;
        case 'I':
            kill(getpid(), SIGTERM);
            break;
        default:
            print("?");
            return 96;
        }
    }
    return 95;
}
