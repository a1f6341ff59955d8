// SPDX-License-Identifier: Apache-2.0
/* A middleware that delivers a message at each take, at once, and drops what is published: what remains is the cost of what
 * stands before rmw. Calls go through the PLT, as those of rcl. See rmw/rmw.h.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct endpoint {
    const char *identifier;
    void *data;
    const char *topic;
    uint64_t rest[16];
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

static const char *const identifier = "rmw_fastrtps_cpp";
static struct endpoint subscription, publisher, statistics;
static int context;
static struct node node = {0, 0, "measured", "/", &context};
static volatile bool has_ended;

/* A middleware ends with its process: what is published from then on would be a crash. */
__attribute__((destructor)) static void end(void)
{
    has_ended = true;
    usleep(100000);
}

struct endpoint *rmw_create_subscription(const struct node *of, const void *type, const char *topic, const void *qos,
                                         const void *options)
{
    (void)of, (void)type, (void)qos, (void)options;
    subscription.identifier = identifier;
    subscription.topic = topic;
    return &subscription;
}

struct endpoint *rmw_create_publisher(const struct node *of, const void *type, const char *topic, const void *qos,
                                      const void *options)
{
    (void)of, (void)type, (void)qos, (void)options;
    struct endpoint *created = strcmp(topic, "/statistics") ? &publisher : &statistics;
    created->identifier = identifier;
    created->topic = topic;
    return created;
}

int rmw_destroy_subscription(struct node *of, struct endpoint *endpoint)
{
    (void)of, (void)endpoint;
    return 0;
}

int rmw_destroy_publisher(struct node *of, struct endpoint *endpoint)
{
    (void)of, (void)endpoint;
    return 0;
}

int rmw_destroy_node(struct node *of)
{
    (void)of;
    return 0;
}

int rmw_take_with_info(const struct endpoint *of, void *message, bool *taken, struct info *info, void *allocation)
{
    (void)of, (void)allocation;
    int32_t stamp[2] = {1700000000, 5};
    memcpy(message, stamp, sizeof stamp);
    info->source = info->received = 1700000000000000005;
    info->publication_number++;
    *taken = true;
    return 0;
}

int rmw_publish(const struct endpoint *of, const void *message, void *allocation)
{
    (void)of, (void)message, (void)allocation;
    if (has_ended)
        abort();
    return 0;
}

/* Creates a publisher of that type. */
struct endpoint *create(const void *type)
{
    uint64_t qos[16] = {0}, options[8] = {0};
    return rmw_create_publisher(&node, type, "/imu", qos, options);
}

/* Publishes that many messages. */
void publish(const struct endpoint *by, long count)
{
    for (long i = 0; i < count; i++)
        rmw_publish(by, "", NULL);
}

/* Creates a subscription and a publisher of that type, then takes and publishes `count` messages. Returns the nanoseconds
 * of a take and of a publication, and the allocations of this thread meanwhile (with libcount_malloc). */
void measure(const void *type, long count, double *take, double *publish, unsigned long long *allocated)
{
    unsigned long long (*allocations)(pid_t) = (unsigned long long (*)(pid_t))dlsym(RTLD_DEFAULT, "allocations");
    pid_t thread = syscall(SYS_gettid);
    static char message[4096];
    static struct info info;
    uint64_t qos[16] = {0}, options[8] = {0};
    bool taken;
    struct timespec times[3];
    struct endpoint *from = rmw_create_subscription(&node, type, "/imu", qos, options);
    struct endpoint *to = create(type);
    /* Once before: functions are found at their first call. */
    rmw_take_with_info(from, message, &taken, &info, NULL);
    rmw_publish(to, message, NULL);
    unsigned long long before = allocations ? allocations(thread) : 0;
    clock_gettime(CLOCK_MONOTONIC, &times[0]);
    for (long i = 0; i < count; i++)
        rmw_take_with_info(from, message, &taken, &info, NULL);
    clock_gettime(CLOCK_MONOTONIC, &times[1]);
    for (long i = 0; i < count; i++)
        rmw_publish(to, message, NULL);
    clock_gettime(CLOCK_MONOTONIC, &times[2]);
    *allocated = (allocations ? allocations(thread) : 0) - before;
    double nanoseconds[2];
    for (int i = 0; i < 2; i++)
        nanoseconds[i] = (times[i + 1].tv_sec - times[i].tv_sec) * 1e9 + (times[i + 1].tv_nsec - times[i].tv_nsec);
    *take = nanoseconds[0] / count;
    *publish = nanoseconds[1] / count;
    rmw_destroy_subscription(&node, from);
    rmw_destroy_publisher(&node, to);
    rmw_destroy_node(&node);
}
