// SPDX-License-Identifier: Apache-2.0
/* Calls rmw, rcl and tracetools in the same order as rclcpp 28.1 and 29.3 do, for subscriptions and publishers with and
 * without intra-process communication, and for executors that call rmw_wait and the EventsExecutor, which does not.
 */
#include "null_rmw.c"
#include <pthread.h>

/* The tracepoints of tracetools. They do nothing, as with tracing switched off. */
void ros_trace_rcl_subscription_init(const void *subscription, const void *node, const void *rmw_subscription,
                                     const char *topic, size_t depth)
{
    (void)subscription, (void)node, (void)rmw_subscription, (void)topic, (void)depth;
}
void ros_trace_rclcpp_subscription_callback_added(const void *subscription, const void *callback)
{
    (void)subscription, (void)callback;
}
void ros_trace_rclcpp_intra_publish(const void *publisher, const void *message)
{
    (void)publisher, (void)message;
}
void ros_trace_callback_start(const void *callback, bool is_intra_process)
{
    (void)callback, (void)is_intra_process;
}
void ros_trace_callback_end(const void *callback)
{
    (void)callback;
}
void ros_trace_rclcpp_construct_ring_buffer(const void *buffer, uint64_t capacity)
{
    (void)buffer, (void)capacity;
}
void ros_trace_rclcpp_ipb_to_subscription(const void *ipb, const void *subscription)
{
    (void)ipb, (void)subscription;
}
void ros_trace_rclcpp_ring_buffer_enqueue(const void *buffer, uint64_t index, uint64_t size, bool overwritten)
{
    (void)buffer, (void)index, (void)size, (void)overwritten;
}
void ros_trace_rclcpp_ring_buffer_dequeue(const void *buffer, uint64_t index, uint64_t size)
{
    (void)buffer, (void)index, (void)size;
}
void ros_trace_rclcpp_timer_callback_added(const void *timer, const void *callback)
{
    (void)timer, (void)callback;
}
void ros_trace_rclcpp_timer_link_node(const void *timer, const void *node)
{
    (void)timer, (void)node;
}
bool ros_trace_enabled_rclcpp_callback_register(void)
{
    return false;
}
void ros_trace_do_rclcpp_callback_register(const void *callback, const char *symbol)
{
    (void)callback, (void)symbol;
}

static void register_callback(const void *callback)
{
    if (ros_trace_enabled_rclcpp_callback_register())
        ros_trace_do_rclcpp_callback_register(callback, "Node::on_message(Imu const&)");
}

/* One struct stands for the timer of rcl and the timer of rclcpp. */
struct timer {
    int64_t period, expected, actual;
    int clock;
    char callback;
};
struct timer_call {
    int64_t expected, actual;
};

int rcl_timer_call_with_info(struct timer *timer, struct timer_call *info)
{
    info->expected = timer->expected;
    info->actual = timer->actual;
    return 0;
}
int rcl_timer_get_period(const struct timer *timer, int64_t *period)
{
    *period = timer->period;
    return 0;
}
int rcl_timer_clock(const struct timer *timer, const int **clock)
{
    *clock = &timer->clock;
    return 0;
}
int rcl_timer_fini(struct timer *timer)
{
    (void)timer;
    return 0;
}

/* In this program, rcl's publisher and node are the same objects as rmw's. */
const struct endpoint *rcl_publisher_get_rmw_handle(const void *publisher)
{
    return publisher;
}
const struct node *rcl_node_get_rmw_handle(const void *node)
{
    return node;
}

/* The type support of a type whose introspection library is not installed. */
static const void *find_none(const void *type, const char *identifier)
{
    (void)type, (void)identifier;
    return NULL;
}
const void *unknown_type(void)
{
    static const struct {
        const char *identifier;
        const void *data;
        const void *(*find)(const void *, const char *);
    } type = {"rosidl_typesupport_cpp", NULL, find_none};
    return &type;
}

struct subscription {
    struct endpoint *rmw;
    /* Only the addresses of these variables are used. */
    char rclcpp, callback, intra_process, intra_process_callback, ring, ipb;
    /* `capacity` is the number of places in the ring buffer. */
    uint64_t capacity, write, read, size;
};

static uint64_t qos[16];
static char message[4096];

/* `callbacks` is the number of callbacks of the subscription: 0 for an action client, 2 with intra-process
 * communication. `durability` has rmw's value: 2 is volatile. */
struct subscription *create_subscription(const void *type, const char *topic, int callbacks, bool is_filtered, int durability)
{
    struct options options = {.filter = is_filtered ? "" : NULL};
    const struct {
        int history;
        size_t depth;
        int reliability, durability;
        uint64_t rest[8];
    } qos = {.durability = durability};
    struct subscription *created = calloc(1, sizeof *created);
    created->rmw = rmw_create_subscription(&node, type, strdup(topic), &qos, &options);
    ros_trace_rcl_subscription_init(created, &node, created->rmw, topic, 10);
    if (callbacks == 2) {
        created->capacity = 10;
        created->write = created->capacity - 1;
        ros_trace_rclcpp_construct_ring_buffer(&created->ring, created->capacity);
        ros_trace_rclcpp_ipb_to_subscription(&created->ipb, &created->intra_process);
        ros_trace_rclcpp_subscription_callback_added(&created->intra_process, &created->intra_process_callback);
        register_callback(&created->intra_process_callback);
    }
    if (callbacks) {
        ros_trace_rclcpp_subscription_callback_added(&created->rclcpp, &created->callback);
        register_callback(&created->callback);
    }
    return created;
}

struct endpoint *create_publisher(const void *type, const char *topic)
{
    uint64_t options[8] = {0};
    return rmw_create_publisher(&node, type, strdup(topic), qos, options);
}

void create_service(const void *type, const char *name)
{
    rmw_create_service(&node, type, strdup(name), qos);
}

void destroy_subscription(struct subscription *subscription)
{
    rmw_destroy_subscription(&node, subscription->rmw);
    free(subscription);
}

void destroy_publisher(struct endpoint *publisher)
{
    rmw_destroy_publisher(&node, publisher);
}

void filter(struct subscription *subscription, bool is_filtered)
{
    rmw_subscription_set_content_filter(subscription->rmw, is_filtered ? "" : NULL);
}

/* Takes a message of the publisher `of`. If `number` is not 0, it is the number of the message. */
static void take(const struct subscription *subscription, const struct endpoint *of, unsigned long number)
{
    static _Thread_local struct info info;
    struct gid gid = {0};
    bool taken = false;
    if (of)
        rmw_get_gid_for_publisher(of, &gid);
    if (number)
        subscription->rmw->last_number = number - 1;
    memcpy(info.gid, gid.data, sizeof info.gid);
    rmw_take_with_info(subscription->rmw, message, &taken, &info, NULL);
}

/* Takes the message with this number, and runs the callback of the subscription. */
void take_number(const struct subscription *subscription, unsigned long number)
{
    take(subscription, NULL, number);
    ros_trace_callback_start(&subscription->callback, false);
    ros_trace_callback_end(&subscription->callback);
}

/* Puts a message into the ring buffer of a subscription, and takes it out. */
static void enqueue(struct subscription *to)
{
    if (to->capacity == 0)
        return; /* it has no intra-process communication */
    bool is_full = to->size == to->capacity;
    to->write = (to->write + 1) % to->capacity;
    ros_trace_rclcpp_ring_buffer_enqueue(&to->ring, to->write, to->size + 1, is_full);
    if (is_full)
        to->read = (to->read + 1) % to->capacity;
    else
        to->size++;
    rmw_trigger_guard_condition(NULL);
}
static bool dequeue(struct subscription *from)
{
    if (from->size == 0)
        return false;
    ros_trace_rclcpp_ring_buffer_dequeue(&from->ring, from->read, from->size - 1);
    from->read = (from->read + 1) % from->capacity;
    from->size--;
    return true;
}

static void *call_timer(void *timer)
{
    struct timer_call info;
    rcl_timer_call_with_info(timer, &info);
    return NULL;
}

static void sleep_ms(long milliseconds)
{
    if (milliseconds > 0)
        usleep(milliseconds * 1000);
}

/* Creates a timer. `clock` has rcl's value for the type of a clock: 3 is the steady clock. */
struct timer *create_timer(long period, int clock)
{
    struct timer *created = calloc(1, sizeof *created);
    created->period = period;
    created->clock = clock;
    ros_trace_rclcpp_timer_callback_added(created, &created->callback);
    register_callback(&created->callback);
    ros_trace_rclcpp_timer_link_node(created, &node);
    return created;
}

void destroy_timer(struct timer *timer)
{
    rcl_timer_fini(timer);
    free(timer);
}

/* Calls a timer `late` nanoseconds too late. The callback starts `before` ms after rcl's call of the timer, on the same
 * thread or on another one, and lasts `during` ms. */
void fire(struct timer *timer, long late, long before, long during, bool is_other_thread)
{
    struct timer_call info;
    timer->actual = timer->expected + late;
    if (is_other_thread) {
        pthread_t thread;
        pthread_create(&thread, NULL, call_timer, timer);
        pthread_join(thread, NULL);
    } else {
        rcl_timer_call_with_info(timer, &info);
    }
    sleep_ms(before);
    ros_trace_callback_start(&timer->callback, false);
    sleep_ms(during);
    ros_trace_callback_end(&timer->callback);
}

/* Takes a message. Its callback starts `before` ms later, and lasts `during` ms. If `during` is negative, no callback
 * starts. */
void receive(const struct subscription *subscription, long before, long during)
{
    take(subscription, NULL, 0);
    sleep_ms(before);
    if (during < 0)
        return;
    ros_trace_callback_start(&subscription->callback, false);
    sleep_ms(during);
    ros_trace_callback_end(&subscription->callback);
}

/* Executes the actions in `steps`, one letter each. `own` publishes the messages that `from` receives. From the first
 * `I` on, `own` uses intra-process communication. Callbacks publish on `out`. */
void does(const char *steps, struct subscription *from, const struct subscription *other,
          const struct subscription *feedback, const struct endpoint *own, const struct endpoint *out)
{
    static struct timer timer;
    for (const char *step = steps; *step; step++) {
        switch (*step) {
        case 'w':
            rmw_wait(NULL, NULL, NULL, NULL, NULL, NULL, NULL);
            break;
        case 'p': /* no callback */
            rmw_publish(out, message, NULL);
            break;
        case 'c': /* a callback that publishes; the message is of another process */
        case 'o': /* and takes by another subscription before */
        case 'l': /* of the local publisher */
            take(from, *step == 'l' ? own : NULL, 0);
            ros_trace_callback_start(&from->callback, false);
            if (*step == 'o')
                take(other, NULL, 0);
            rmw_publish(out, message, NULL);
            ros_trace_callback_end(&from->callback);
            break;
        case 'x': /* a callback that throws */
            take(from, NULL, 0);
            ros_trace_callback_start(&from->callback, false);
            break;
        case 't': /* a timer that another thread has called publishes */
        case 'T': /* and takes itself before */ {
            pthread_t thread;
            pthread_create(&thread, NULL, call_timer, &timer);
            pthread_join(thread, NULL);
            ros_trace_callback_start(&timer.callback, false);
            if (*step == 'T')
                take(from, NULL, 0);
            rmw_publish(out, message, NULL);
            ros_trace_callback_end(&timer.callback);
            break;
        }
        case 'f': /* feedback and status of an action, whose callback publishes */
            take(feedback, NULL, 0);
            take(feedback, NULL, 0);
            rmw_publish(out, message, NULL);
            break;
        case 'I': /* published by intra-process communication, and for others by the middleware */
        case 'J': /* or only by intra-process communication */
            ros_trace_rclcpp_intra_publish(own, message);
            enqueue(from);
            if (*step == 'I')
                rmw_publish(own, message, NULL);
            break;
        case 'd': /* its copy is taken and discarded */
            take(from, own, 0);
            break;
        case 'i': /* its callback publishes */
            if (!dequeue(from))
                break;
            ros_trace_callback_start(&from->intra_process_callback, true);
            rmw_publish(out, message, NULL);
            ros_trace_callback_end(&from->intra_process_callback);
            break;
        default:
            fprintf(stderr, "%c is unknown\n", *step);
        }
    }
}

/* Creates a subscription with intra-process communication, its publisher and a timer. Measures in nanoseconds: a take
 * with its callback, a callback without a message, a message within the process (publication, buffer and callback), and
 * a call of the timer with its callback. Also counts this thread's allocations meanwhile (with libcount_malloc). */
void measure_callbacks(const void *type, long count, double *nanoseconds, unsigned long long *allocated)
{
    unsigned long long (*allocations)(pid_t) = (unsigned long long (*)(pid_t))dlsym(RTLD_DEFAULT, "allocations");
    pid_t thread = syscall(SYS_gettid);
    struct subscription *from = create_subscription(type, OWN "measured", 2, false, 2);
    struct endpoint *own = create_publisher(type, OWN "measured");
    struct timer *timer = create_timer(10000000, 3);
    unsigned long long before = 0;
    for (int round = 0; round < 2; round++) { /* the first round is a warm-up */
        long n = round ? count : 1;
        before = allocations ? allocations(thread) : 0;
        MEASURE(nanoseconds[0], n, receive(from, 0, 0));
        MEASURE(nanoseconds[1], n, {
            ros_trace_callback_start(&from->callback, false);
            ros_trace_callback_end(&from->callback);
        });
        MEASURE(nanoseconds[2], n, {
            ros_trace_rclcpp_intra_publish(own, message);
            enqueue(from);
            dequeue(from);
            ros_trace_callback_start(&from->intra_process_callback, true);
            ros_trace_callback_end(&from->intra_process_callback);
        });
        MEASURE(nanoseconds[3], n, fire(timer, 0, 0, 0, false));
    }
    *allocated = (allocations ? allocations(thread) : 0) - before;
    destroy_timer(timer);
    destroy_publisher(own);
    destroy_subscription(from);
}
