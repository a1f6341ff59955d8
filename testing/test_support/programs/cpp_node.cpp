// SPDX-License-Identifier: Apache-2.0
/* A node with messages of C++, as rclcpp has them, on rcl: publishes `sensor_msgs/Imu` on `imu` and takes it again.
 *
 * Each line of its standard input is a number of messages, whose stamps are 250 ms old; the answer is the number of those
 * that were taken. The program ends when its input ends.
 */
#include <chrono>
#include <iostream>
#include <string>
#include <thread>

#include <rcl/error_handling.h>
#include <rcl/rcl.h>
#include <rosidl_typesupport_cpp/message_type_support.hpp>
#include <sensor_msgs/msg/imu.hpp>

using sensor_msgs::msg::Imu;
using namespace std::chrono;

static void check(rcl_ret_t result, const char *what)
{
    if (result != RCL_RET_OK) {
        std::cerr << what << ": " << rcl_get_error_string().str << std::endl;
        std::exit(1);
    }
}

static bool take(const rcl_subscription_t &subscription, Imu &message)
{
    rcl_ret_t result = rcl_take(&subscription, &message, nullptr, nullptr);
    if (result == RCL_RET_SUBSCRIPTION_TAKE_FAILED) {
        rcl_reset_error();
        return false;
    }
    check(result, "rcl_take");
    return true;
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
    rcl_publisher_t publisher = rcl_get_zero_initialized_publisher();
    rcl_publisher_options_t publisher_options = rcl_publisher_get_default_options();
    check(rcl_publisher_init(&publisher, &node, type, "imu", &publisher_options), "rcl_publisher_init");

    std::string line;
    while (std::getline(std::cin, line)) {
        int taken = 0;
        for (int left = std::stoi(line); left > 0; left--) {
            Imu message;
            // Longer than a string that lies in the object itself.
            message.header.frame_id = "a_frame_whose_name_is_long_enough";
            auto stamp = duration_cast<nanoseconds>((system_clock::now() - milliseconds(250)).time_since_epoch());
            message.header.stamp.sec = duration_cast<seconds>(stamp).count();
            message.header.stamp.nanosec = (stamp % seconds(1)).count();
            check(rcl_publish(&publisher, &message, nullptr), "rcl_publish");
            auto until = steady_clock::now() + seconds(10);
            Imu received;
            while (!take(subscription, received) && steady_clock::now() < until)
                std::this_thread::sleep_for(milliseconds(1));
            taken += received == message;
        }
        std::cout << taken << std::endl;
    }
    check(rcl_publisher_fini(&publisher, &node), "rcl_publisher_fini");
    check(rcl_subscription_fini(&subscription, &node), "rcl_subscription_fini");
    check(rcl_node_fini(&node), "rcl_node_fini");
    check(rcl_shutdown(&context), "rcl_shutdown");
    check(rcl_context_fini(&context), "rcl_context_fini");
    check(rcl_init_options_fini(&init_options), "rcl_init_options_fini");
}
