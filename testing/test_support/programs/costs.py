# SPDX-License-Identifier: Apache-2.0
"""Takes and publishes, calls and serves COUNT times with the middleware that does nothing (the library MIDDLEWARE).

Prints the nanoseconds of a take, a publication, a call with its response and a request with its response, the times of
`measure_callbacks` in null_rclcpp.c, the bytes of a subscription, and the allocations of everything except the creation
of subscriptions (with libcount_malloc).
"""

import ctypes
import sys

rmw = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
count = ctypes.c_long(int(sys.argv[2]))
support = ctypes.CDLL('libsensor_msgs__rosidl_typesupport_c.so')
handle = support.rosidl_typesupport_c__get_message_type_support_handle__sensor_msgs__msg__Imu
handle.restype = ctypes.c_void_p
times = (ctypes.c_double * 8)()
allocated = (ctypes.c_ulonglong * 3)()


def of(values, index):
    return ctypes.byref(values, index * ctypes.sizeof(values._type_))


rmw.measure(ctypes.c_void_p(handle()), count, of(times, 0), of(times, 1), of(allocated, 0))
rmw.create_services()
rmw.measure_services(count, of(times, 2), of(times, 3), of(allocated, 1))
rmw.measure_callbacks(ctypes.c_void_p(handle()), count, of(times, 4), of(allocated, 2))
rmw.subscription_bytes.restype = ctypes.c_double
print(*times, rmw.subscription_bytes(ctypes.c_void_p(handle()), ctypes.c_long(1000)), sum(allocated))
