# SPDX-License-Identifier: Apache-2.0
"""Sets and gets parameters of a node through its parameter services, like `ros2 param`.

Reads commands from standard input, one line of JSON each: `["set", NAME, VALUE]`, `["get", NAME]` or `["describe",
NAME]`. Prints the result of each as a line of JSON: `[true, ""]` or `[false, REASON]`, the value, or the descriptor.
"""

import json
import sys

import rclpy
from rcl_interfaces.srv import DescribeParameters, GetParameters, SetParameters
from rclpy.parameter import Parameter, parameter_value_to_python

rclpy.init()
node = rclpy.create_node('operator')


def call(service, name, request):
    client = node.create_client(service, f'{sys.argv[1]}/{name}')
    client.wait_for_service()
    future = client.call_async(request)
    rclpy.spin_until_future_complete(node, future)
    node.destroy_client(client)
    return future.result()


for line in sys.stdin:
    verb, name, *value = json.loads(line)
    if verb == 'set':
        parameter = Parameter(name, value=value[0]).to_parameter_msg()
        result = call(SetParameters, 'set_parameters', SetParameters.Request(parameters=[parameter])).results[0]
        answer = [result.successful, result.reason]
    elif verb == 'get':
        result = call(GetParameters, 'get_parameters', GetParameters.Request(names=[name])).values[0]
        answer = parameter_value_to_python(result)
    else:
        result = call(DescribeParameters, 'describe_parameters', DescribeParameters.Request(names=[name]))
        descriptor = result.descriptors[0]
        answer = [descriptor.description, descriptor.additional_constraints, descriptor.read_only]
    print(json.dumps(answer), flush=True)
