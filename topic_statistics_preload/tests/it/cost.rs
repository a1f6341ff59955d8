// SPDX-License-Identifier: Apache-2.0

//! What a message costs. A middleware that does nothing leaves only that.

use test_support::{command, domain, preload};

use crate::library;

const SCRIPT: &str = "
import ctypes, sys
rmw = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
support = ctypes.CDLL('libsensor_msgs__rosidl_typesupport_c.so')
handle = support.rosidl_typesupport_c__get_message_type_support_handle__sensor_msgs__msg__Imu
handle.restype = ctypes.c_void_p
take, publish, allocated = ctypes.c_double(), ctypes.c_double(), ctypes.c_ulonglong()
of = [ctypes.byref(value) for value in (take, publish, allocated)]
rmw.measure(ctypes.c_void_p(handle()), ctypes.c_long(int(sys.argv[2])), *of)
print(take.value, publish.value, allocated.value)
";

/// Returns the nanoseconds of a take and of a publication, and the allocations of all of them; None without a C compiler.
fn measure(count: u32, options: Option<&[(&str, &str)]>) -> Option<[f64; 3]> {
    let (rmw, counting) = (preload::library("null_rmw")?, preload::library("count_malloc")?);
    let count = count.to_string();
    let mut command = command("python3", &["-c", SCRIPT, rmw.to_str().unwrap(), &count], domain());
    preload::preload(&mut command, &counting);
    if let Some(options) = options {
        command.env("LD_PRELOAD", format!("{}:{}", counting.display(), library().display()));
        let variable =
            |(name, value): &(&str, &str)| (format!("TOPIC_STATISTICS_{name}"), (*value).to_owned());
        command.envs(options.iter().map(variable));
    }
    let output = command.output().unwrap();
    let [printed, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success() && errors.is_empty(), "{printed}{errors}");
    let values: Vec<f64> = printed.split_whitespace().map(|value| value.parse().unwrap()).collect();
    Some(values.try_into().unwrap())
}

#[test]
fn a_message_costs_no_allocation() {
    let Some([.., plain]) = measure(100_000, None) else { return };
    assert_eq!(plain, 0.0, "the middleware allocates nothing");
    for metrics in ["message_age,message_period", "all"] {
        let [take, publish, allocations] = measure(100_000, Some(&[("METRICS", metrics)])).unwrap();
        println!("{metrics}: a take {take:.0} ns, a publication {publish:.0} ns");
        assert_eq!(allocations, 0.0, "{metrics}");
    }
}
