// SPDX-License-Identifier: Apache-2.0
/* A node on rcl with C++ messages, as in rclcpp. It publishes `sensor_msgs/Imu` on `imu` and takes each message again.
 * 10 ms after each take, it reports a callback of 10 ms by rclcpp's tracepoints. It also calls its own service
 * `set_camera_info`, which responds after 10 ms. The service and the client have service introspection.
 *
 * Each line of standard input has two numbers: how many messages to publish, with stamps 250 ms old, and how many calls
 * to make. The answer is the number of messages taken and of right responses. The program ends when its input ends.
 */
#include <chrono>
#include <iostream>
#include <string>
#include <thread>

#include <rcl/error_handling.h>
#include <rcl/graph.h>
#include <rcl/rcl.h>
#include <rosidl_typesupport_cpp/message_type_support.hpp>
#include <rcl/service_introspection.h>
#include <rosidl_typesupport_cpp/service_type_support.hpp>
#include <sensor_msgs/msg/imu.hpp>
#include <sensor_msgs/srv/set_camera_info.hpp>
#include <tracetools/tracetools.h>

using sensor_msgs::msg::Imu;
using sensor_msgs::srv::SetCameraInfo;
using namespace std::chrono;

static void check(rcl_ret_t result, const char *what)
{
    if (result != RCL_RET_OK) {
        std::cerr << what << ": " << rcl_get_error_string().str << std::endl;
        std::exit(1);
    }
}

static bool has_taken(rcl_ret_t result, const char *what)
{
    if (result == RCL_RET_SUBSCRIPTION_TAKE_FAILED || result == RCL_RET_SERVICE_TAKE_FAILED ||
        result == RCL_RET_CLIENT_TAKE_FAILED) {
        rcl_reset_error();
        return false;
    }
    check(result, what);
    return true;
}

template <class Condition> static bool wait_for(Condition condition)
{
    auto until = steady_clock::now() + seconds(10);
    while (!condition()) {
        if (steady_clock::now() > until)
            return false;
        std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
}

/* Calls the service, and serves the call. Returns whether the client gets the service's response. */
static bool call(const rcl_client_t &client, const rcl_service_t &service)
{
    SetCameraInfo::Request request, taken;
    SetCameraInfo::Response response, received;
    rmw_service_info_t info, received_info;
    request.camera_info.distortion_model = "a_model_whose_name_is_long_enough";
    int64_t number;
    check(rcl_send_request(&client, &request, &number), "rcl_send_request");
    if (!wait_for([&] {
            return has_taken(rcl_take_request_with_info(&service, &info, &taken), "rcl_take_request_with_info");
        }))
        return false;
    std::this_thread::sleep_for(milliseconds(10));
    response.status_message = taken.camera_info.distortion_model;
    check(rcl_send_response(&service, &info.request_id, &response), "rcl_send_response");
    return wait_for([&] {
               return has_taken(rcl_take_response_with_info(&client, &received_info, &received),
                                "rcl_take_response_with_info");
           }) &&
           received.status_message == request.camera_info.distortion_model;
}

int main(int argc, char **argv)
{
    rcl_init_options_t init_options = rcl_get_zero_initialized_init_options();
    check(rcl_init_options_init(&init_options, rcl_get_default_allocator()), "rcl_init_options_init");
    rcl_context_t context = rcl_get_zero_initialized_context();
    check(rcl_init(argc, argv, &init_options, &context), "rcl_init");
    rcl_node_t node = rcl_get_zero_initialized_node();
    rcl_node_options_t node_options = rcl_node_get_default_options();
    check(rcl_node_init(&node, "cpp", "", &context, &node_options), "rcl_node_init");

    const auto *type = rosidl_typesupport_cpp::get_message_type_support_handle<Imu>();
    rcl_subscription_t subscription = rcl_get_zero_initialized_subscription();
    rcl_subscription_options_t subscription_options = rcl_subscription_get_default_options();
    check(rcl_subscription_init(&subscription, &node, type, "imu", &subscription_options), "rcl_subscription_init");
    const char callback = 0; // identifies the callback by its address
    TRACETOOLS_TRACEPOINT(rclcpp_subscription_callback_added, &subscription, &callback);
    rcl_publisher_t publisher = rcl_get_zero_initialized_publisher();
    rcl_publisher_options_t publisher_options = rcl_publisher_get_default_options();
    check(rcl_publisher_init(&publisher, &node, type, "imu", &publisher_options), "rcl_publisher_init");

    const auto *service_type = rosidl_typesupport_cpp::get_service_type_support_handle<SetCameraInfo>();
    rcl_service_t service = rcl_get_zero_initialized_service();
    rcl_service_options_t service_options = rcl_service_get_default_options();
    check(rcl_service_init(&service, &node, service_type, "set_camera_info", &service_options), "rcl_service_init");
    rcl_client_t client = rcl_get_zero_initialized_client();
    rcl_client_options_t client_options = rcl_client_get_default_options();
    check(rcl_client_init(&client, &node, service_type, "set_camera_info", &client_options), "rcl_client_init");
    // Does the same as rclcpp's `configure_introspection`.
    rcl_clock_t clock;
    rcl_allocator_t allocator = rcl_get_default_allocator();
    check(rcl_ros_clock_init(&clock, &allocator), "rcl_ros_clock_init");
    const auto metadata = RCL_SERVICE_INTROSPECTION_METADATA;
    rcl_publisher_options_t events = rcl_publisher_get_default_options();
    events.qos.depth = 1000;
    check(rcl_service_configure_service_introspection(&service, &node, &clock, service_type, events, metadata),
          "rcl_service_configure_service_introspection");
    check(rcl_client_configure_service_introspection(&client, &node, &clock, service_type, events, metadata),
          "rcl_client_configure_service_introspection");
    bool is_available = false;
    if (!wait_for([&] {
            check(rcl_service_server_is_available(&node, &client, &is_available), "rcl_service_server_is_available");
            return is_available;
        }))
        return 1;

    std::string line;
    while (std::getline(std::cin, line)) {
        int taken = 0;
        for (int left = std::stoi(line); left > 0; left--) {
            Imu message;
            // This text is too long for std::string's internal buffer, so the string uses the heap.
            message.header.frame_id = "a_frame_whose_name_is_long_enough";
            auto stamp = duration_cast<nanoseconds>((system_clock::now() - milliseconds(250)).time_since_epoch());
            message.header.stamp.sec = duration_cast<seconds>(stamp).count();
            message.header.stamp.nanosec = (stamp % seconds(1)).count();
            check(rcl_publish(&publisher, &message, nullptr), "rcl_publish");
            Imu received;
            wait_for([&] { return has_taken(rcl_take(&subscription, &received, nullptr, nullptr), "rcl_take"); });
            std::this_thread::sleep_for(milliseconds(10));
            TRACETOOLS_TRACEPOINT(callback_start, &callback, false);
            std::this_thread::sleep_for(milliseconds(10));
            TRACETOOLS_TRACEPOINT(callback_end, &callback);
            taken += received == message && call(client, service);
        }
        std::cout << taken << std::endl;
    }
    check(rcl_client_fini(&client, &node), "rcl_client_fini");
    check(rcl_service_fini(&service, &node), "rcl_service_fini");
    check(rcl_publisher_fini(&publisher, &node), "rcl_publisher_fini");
    check(rcl_subscription_fini(&subscription, &node), "rcl_subscription_fini");
    check(rcl_node_fini(&node), "rcl_node_fini");
    check(rcl_clock_fini(&clock), "rcl_clock_fini");
    check(rcl_shutdown(&context), "rcl_shutdown");
    check(rcl_context_fini(&context), "rcl_context_fini");
    check(rcl_init_options_fini(&init_options), "rcl_init_options_fini");
}
