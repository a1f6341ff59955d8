// SPDX-License-Identifier: Apache-2.0
/* A middleware that does nothing: each take delivers a message at once, and published messages are dropped. So only the
 * layers above rmw take time. This library calls its own functions through the PLT, as rcl does. See rmw/rmw.h.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct endpoint {
    const char *identifier;
    void *data;
    const char *topic;
    uint64_t rest[15];
    uint64_t last_number; /* of the messages taken */
};
struct node {
    const char *identifier;
    void *data;
    const char *name;
    const char *name_space;
    void *context;
};
struct info {
    int64_t source, received;
    uint64_t publication_number, reception_number;
    const char *identifier;
    uint8_t gid[16];
    bool is_intra_process;
};
struct gid {
    const char *identifier;
    uint8_t data[16];
};
struct request {
    uint8_t guid[16];
    int64_t number;
};
struct service_info {
    int64_t source, received;
    struct request request;
};

static const char *identifier = "rmw_fastrtps_cpp";
/* The timestamps and the number that the middleware reports with each message. */
static int64_t source = 1700000000000000005, received = 1700000000000000005;
static uint64_t number_of_each = 1;
static bool has_numbers = true;
static struct endpoint subscription, publisher, statistics, service, client;
/* Endpoints whose names have this prefix are allocated on the heap, so that a test can create many of them. */
#define OWN "/own_"
static int context;
static struct node node = {0, 0, "measured", "/", &context};

static volatile bool has_ended;

static struct endpoint *new_endpoint(struct endpoint *usual, const char *name)
{
    struct endpoint *created = strncmp(name, OWN, strlen(OWN)) ? usual : calloc(1, sizeof *created);
    created->identifier = identifier;
    created->topic = name;
    return created;
}

static int destroy(struct node *of, struct endpoint *endpoint)
{
    (void)of;
    if (endpoint->topic && !strncmp(endpoint->topic, OWN, strlen(OWN)))
        free(endpoint);
    return 0;
}
#define DESTROYS(name) __typeof__(destroy) name __attribute__((alias("destroy")))
DESTROYS(rmw_destroy_subscription);
DESTROYS(rmw_destroy_publisher);
DESTROYS(rmw_destroy_service);
DESTROYS(rmw_destroy_client);

/* Simulates the end of a real middleware at the exit of the process. A later publication aborts the process. */
__attribute__((destructor)) static void end(void)
{
    const char *microseconds = getenv("MICROSECONDS_AT_EXIT");
    has_ended = true;
    usleep(microseconds ? atoi(microseconds) : 100000);
}

/* The layout of rmw_subscription_options_t, and of the fields that follow the topic in rmw_subscription_t. */
struct options {
    void *payload;
    bool ignores_local;
    int network_flow;
    const void *filter;
};
struct of_subscription {
    struct options options;
    bool can_loan, is_filtered;
};

static int set_filter(struct endpoint *of, const void *filter)
{
    ((struct of_subscription *)of->rest)->is_filtered = filter != NULL;
    return 0;
}
__typeof__(set_filter) rmw_subscription_set_content_filter __attribute__((alias("set_filter")));

struct endpoint *rmw_create_subscription(const struct node *of, const void *type, const char *topic, const void *qos,
                                         const void *options)
{
    (void)of, (void)type, (void)qos;
    struct endpoint *created = new_endpoint(&subscription, topic);
    set_filter(created, options ? ((const struct options *)options)->filter : NULL);
    return created;
}

struct endpoint *rmw_create_publisher(const struct node *of, const void *type, const char *topic, const void *qos,
                                      const void *options)
{
    (void)of, (void)type, (void)qos, (void)options;
    return new_endpoint(strcmp(topic, "/statistics") ? &publisher : &statistics, topic);
}

/* The GID of a publisher contains the publisher's address. */
int rmw_get_gid_for_publisher(const struct endpoint *of, struct gid *gid)
{
    gid->identifier = identifier;
    memset(gid->data, 0, sizeof gid->data);
    memcpy(gid->data, &of, sizeof of);
    return 0;
}

int rmw_trigger_guard_condition(const void *guard_condition)
{
    (void)guard_condition;
    return 0;
}

struct endpoint *rmw_create_service(const struct node *of, const void *type, const char *name, const void *qos)
{
    (void)of, (void)type, (void)qos;
    return new_endpoint(&service, name);
}

struct endpoint *rmw_create_client(const struct node *of, const void *type, const char *name, const void *qos)
{
    (void)of, (void)type, (void)qos;
    return new_endpoint(&client, name);
}

int rmw_destroy_node(struct node *of)
{
    (void)of;
    return 0;
}

int rmw_take_with_info(const struct endpoint *of, void *message, bool *taken, struct info *info, void *allocation)
{
    (void)allocation;
    int32_t stamp[2] = {1700000000, 5};
    memcpy(message, stamp, sizeof stamp);
    info->source = source;
    info->received = received;
    info->publication_number = has_numbers ? ++((struct endpoint *)of)->last_number : number_of_each;
    *taken = true;
    return 0;
}

int rmw_wait(void *subscriptions, void *guard_conditions, void *services, void *clients, void *events, void *wait_set,
             const void *timeout)
{
    (void)subscriptions, (void)guard_conditions, (void)services, (void)clients, (void)events, (void)wait_set, (void)timeout;
    return 0;
}

static void wait_for_messages(void)
{
    rmw_wait(NULL, NULL, NULL, NULL, NULL, NULL, NULL);
}

/* The C layout of a statistics_msgs/MetricsMessage. */
struct metrics {
    struct {
        const char *data;
        size_t size, capacity;
    } source, name, unit;
    int32_t window[4];
    const struct {
        uint8_t type;
        double value;
    } *points;
};

/* A function that is called for each metric of a window, with the source, name, average and sample count. */
void (*on_statistics)(const char *, const char *, double, double);

/* When the last published window of the client and of the service started, in ns since the epoch. This client and this
   service live until the process ends. */
static _Atomic long client_started, service_started;

/* Returns the earlier one of these two times. All windows before it were published. */
long last_window_start(void)
{
    long client = client_started, service = service_started;
    return client < service ? client : service;
}

int rmw_publish(const struct endpoint *of, const void *message, void *allocation)
{
    (void)allocation;
    if (has_ended)
        abort();
    const struct metrics *metrics = message;
    if (of == &statistics && on_statistics)
        on_statistics(metrics->source.data, metrics->name.data, metrics->points[0].value, metrics->points[3].value);
    if (of == &statistics && getenv("PRINT_STATISTICS")) {
        printf("%s %s %.17g %g\n", metrics->source.data, metrics->name.data, metrics->points[0].value,
               metrics->points[3].value);
        fflush(stdout);
    }
    if (of == &statistics && !strncmp(metrics->source.data, "/measured:/plan", 15)) {
        long start = metrics->window[0] * 1000000000L + metrics->window[1];
        if (!strcmp(metrics->name.data, "calls"))
            client_started = start;
        if (!strcmp(metrics->name.data, "requests"))
            service_started = start;
    }
    return 0;
}

/* The number of this thread's last request; and whether a response is taken before the sending function returns. */
static _Thread_local int64_t sent;
static bool are_early;

int rmw_take_response(const struct endpoint *of, struct service_info *info, void *response, bool *taken)
{
    (void)of, (void)response;
    info->source = source;
    info->received = received;
    info->request.number = sent;
    *taken = true;
    return 0;
}

int rmw_send_request(const struct endpoint *of, const void *request, int64_t *number)
{
    (void)request;
    struct service_info info = {0};
    bool taken;
    *number = ++sent;
    if (are_early)
        rmw_take_response(of, &info, NULL, &taken);
    return 0;
}

int rmw_take_request(const struct endpoint *of, struct service_info *info, void *request, bool *taken)
{
    (void)of, (void)request;
    info->source = source;
    info->received = received;
    info->request.number = ++sent;
    *taken = true;
    return 0;
}

int rmw_send_response(const struct endpoint *of, struct request *request, void *response)
{
    (void)of, (void)request, (void)response;
    return 0;
}

/* Creates a publisher of this type. */
struct endpoint *create(const void *type)
{
    uint64_t qos[16] = {0}, options[8] = {0};
    return rmw_create_publisher(&node, type, "/imu", qos, options);
}

/* Publishes this number of messages. */
void publish(const struct endpoint *by, long count)
{
    for (long i = 0; i < count; i++)
        rmw_publish(by, "", NULL);
}

/* Behaves like the middleware of this name, with these timestamps. If `number` is not 0, each message has it. */
void play(const char *name, long of_source, long of_received, unsigned long number)
{
    identifier = name;
    source = of_source;
    received = of_received;
    has_numbers = number == 0;
    number_of_each = number;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

/* Runs code `count` times, in batches of 1000. The result is the time of one run in nanoseconds. The result is from the
 * fastest batch, so that other processes on a busy machine have no effect. */
#define MEASURE(nanoseconds, count, code)                                    \
    do {                                                                     \
        nanoseconds = 1e18;                                                  \
        for (long done = 0; done < (count); done += 1000) {                  \
            double began = now();                                            \
            for (long i = 0; i < 1000; i++) {                                \
                code;                                                        \
            }                                                                \
            double each = (now() - began) / 1000;                            \
            nanoseconds = each < nanoseconds ? each : nanoseconds;           \
        }                                                                    \
    } while (0)

/* Creates a subscription and a publisher of this type, then takes and publishes `count` messages. Measures a take and a
 * publication in nanoseconds, and counts this thread's allocations meanwhile (with libcount_malloc). */
void measure(const void *type, long count, double *take, double *publish, unsigned long long *allocated)
{
    unsigned long long (*allocations)(pid_t) = (unsigned long long (*)(pid_t))dlsym(RTLD_DEFAULT, "allocations");
    pid_t thread = syscall(SYS_gettid);
    static char message[4096];
    static struct info info;
    uint64_t qos[16] = {0}, options[8] = {0};
    bool taken;
    struct endpoint *from = rmw_create_subscription(&node, type, "/imu", qos, options);
    struct endpoint *to = create(type);
    /* A warm-up: functions are looked up at their first call, and the preloaded library creates the hop from the
     * subscription to the publisher at the end of a window of 1 s. */
    wait_for_messages();
    rmw_take_with_info(from, message, &taken, &info, NULL);
    rmw_publish(to, message, NULL);
    usleep(1200000);
    unsigned long long before = allocations ? allocations(thread) : 0;
    MEASURE(*take, count, rmw_take_with_info(from, message, &taken, &info, NULL));
    /* All publications count as made in the callback of this message, because nothing else is taken. */
    wait_for_messages();
    rmw_take_with_info(from, message, &taken, &info, NULL);
    MEASURE(*publish, count, rmw_publish(to, message, NULL));
    *allocated = (allocations ? allocations(thread) : 0) - before;
    rmw_destroy_subscription(&node, from);
    rmw_destroy_publisher(&node, to);
    rmw_destroy_node(&node);
}

/* Creates a client and a service, `/plan`. They live until the process ends. */
void create_services(void)
{
    uint64_t qos[16] = {0};
    rmw_create_client(&node, NULL, "/plan", qos);
    rmw_create_service(&node, NULL, "/plan", qos);
}

/* Sends `count` requests. `when` says when their responses are taken: at once (0), before the sending function returns
 * (1), or never (2). */
void call(long count, int when)
{
    struct service_info info = {0};
    int64_t number;
    bool taken;
    are_early = when == 1;
    for (long i = 0; i < count; i++) {
        rmw_send_request(&client, NULL, &number);
        if (when == 0)
            rmw_take_response(&client, &info, NULL, &taken);
    }
    are_early = false;
}

/* Takes `count` requests. Responds to each request at once, or never. */
void serve(long count, bool responds)
{
    struct service_info info = {0};
    bool taken;
    for (long i = 0; i < count; i++) {
        rmw_take_request(&service, &info, NULL, &taken);
        if (responds)
            rmw_send_response(&service, &info.request, NULL);
    }
}

/* Measures in nanoseconds a call, and a request with its response. Counts the allocations of all of them (with
 * libcount_malloc). */
void measure_services(long count, double *of_call, double *of_request, unsigned long long *allocated)
{
    unsigned long long (*allocations)(pid_t) = (unsigned long long (*)(pid_t))dlsym(RTLD_DEFAULT, "allocations");
    pid_t thread = syscall(SYS_gettid);
    call(1, 0);
    serve(1, true);
    unsigned long long before = allocations ? allocations(thread) : 0;
    MEASURE(*of_call, count, call(1, 0));
    MEASURE(*of_request, count, serve(1, true));
    *allocated = (allocations ? allocations(thread) : 0) - before;
}

/* Creates and destroys `count` endpoints of each kind, one after the other. Each endpoint has a different name. */
void come_and_go(const void *type, long count)
{
    uint64_t qos[16] = {0}, options[8] = {0};
    for (long i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, OWN "%ld", i);
        rmw_destroy_subscription(&node, rmw_create_subscription(&node, type, name, qos, options));
        rmw_destroy_publisher(&node, rmw_create_publisher(&node, type, name, qos, options));
        rmw_destroy_client(&node, rmw_create_client(&node, NULL, name, qos));
        rmw_destroy_service(&node, rmw_create_service(&node, NULL, name, qos));
    }
}

/* Creates `count` subscriptions. Returns how many bytes of the heap each of them takes. */
double subscription_bytes(const void *type, long count)
{
    uint64_t qos[16] = {0}, options[8] = {0};
    size_t before = mallinfo2().uordblks;
    for (long i = 0; i < count; i++) {
        char *name = malloc(32);
        snprintf(name, 32, OWN "%ld", i);
        rmw_create_subscription(&node, type, name, qos, options);
    }
    return (double)(mallinfo2().uordblks - before) / count;
}

/* Creates a subscription, a publisher, a client and a service. */
void create_all(void)
{
    uint64_t qos[16] = {0}, options[8] = {0};
    rmw_create_subscription(&node, NULL, "/imu", qos, options);
    create(NULL);
    create_services();
}

void take_one(void)
{
    static _Thread_local char message[64];
    struct info info = {0};
    bool taken;
    rmw_take_with_info(&subscription, message, &taken, &info, NULL);
}

/* Uses all endpoints: takes, publishes, calls and serves. */
void use_all(void)
{
    wait_for_messages();
    take_one();
    publish(&publisher, 1);
    call(1, 0);
    serve(1, true);
}

/* Destroys the existing endpoints and the node. */
void destroy_all(void)
{
    rmw_destroy_subscription(&node, &subscription);
    rmw_destroy_publisher(&node, &publisher);
    rmw_destroy_client(&node, &client);
    rmw_destroy_service(&node, &service);
    rmw_destroy_node(&node);
}
