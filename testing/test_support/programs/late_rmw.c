// SPDX-License-Identifier: Apache-2.0
/* At the first call, loads the middleware that the environment variable LATE_RMW names, as librmw_implementation does.
 * Forwards all calls to this middleware, including calls of the functions for tests in null_rmw.c.
 */
#include <dlfcn.h>
#include <stdlib.h>

static void *find(const char *name)
{
    static void *rmw;
    if (!rmw)
        rmw = dlopen(getenv("LATE_RMW"), RTLD_NOW | RTLD_LOCAL);
    void *function = rmw ? dlsym(rmw, name) : NULL;
    if (!function)
        abort();
    return function;
}

/* All arguments are integers or pointers, and there are at most six, so they can be passed on as longs. */
typedef long function(long, long, long, long, long, long);
#define FORWARD(name)                                                                                                  \
    long name(long a, long b, long c, long d, long e, long f)                                                          \
    {                                                                                                                  \
        return ((function *)find(#name))(a, b, c, d, e, f);                                                            \
    }

FORWARD(rmw_create_subscription)
FORWARD(rmw_destroy_subscription)
FORWARD(rmw_create_publisher)
FORWARD(rmw_destroy_publisher)
FORWARD(rmw_create_service)
FORWARD(rmw_destroy_service)
FORWARD(rmw_create_client)
FORWARD(rmw_destroy_client)
FORWARD(rmw_destroy_node)
FORWARD(rmw_take_with_info)
FORWARD(rmw_publish)
FORWARD(rmw_take_request)
FORWARD(rmw_send_response)
FORWARD(rmw_send_request)
FORWARD(rmw_take_response)

FORWARD(create)
FORWARD(create_services)
FORWARD(call)
FORWARD(serve)
FORWARD(publish)
FORWARD(come_and_go)
FORWARD(last_window_start)
FORWARD(destroy_all)
