// SPDX-License-Identifier: Apache-2.0
//! Interfaces travel from Rust to Python and back over the real middleware.
//!
//! Python reports what it received, so that an error of Rust in both directions shows, too.

use std::{
    collections::BTreeSet,
    env, fs,
    sync::{Arc, Mutex},
};

use generated_crates::{
    for_each_message, for_each_service,
    sample::{Interface, Sample, Source, Variant},
};
use rclrs::{IntoPrimitiveOptions, Node, Promise, Publisher, Subscription};
use rosidl_runtime_rs::{Message, Service};
use serde_json::Value;

use crate::rclpy::{Conversation, Report};

/// The packages whose messages are sent: ROS 2's own. Other packages of a prefix are checked by layout only, because
/// rclpy does not support every type of IDL (it aborts on a `wchar`).
const PACKAGES: [&str; 15] = [
    "action_msgs",
    "builtin_interfaces",
    "diagnostic_msgs",
    "geometry_msgs",
    "lifecycle_msgs",
    "rcl_interfaces",
    "rmw_dds_common",
    "rosgraph_msgs",
    "sensor_msgs",
    "service_msgs",
    "statistics_msgs",
    "std_msgs",
    "test_msgs",
    "type_description_interfaces",
    "unique_identifier_msgs",
];

fn travels(name: &str) -> bool {
    name.split('/').next().is_some_and(|package| PACKAGES.contains(&package))
}

#[test]
fn every_message_arrives_in_python_and_comes_back() {
    let mut names = Vec::new();
    macro_rules! name {
        ($($name:literal => $message:ty,)*) => {$( names.push($name); )*};
    }
    for_each_message!(name);
    names.retain(|name| travels(name));
    for name in listed("test_msgs", "msg/") {
        assert!(names.contains(&name.as_str()), "{name} is not among the messages");
    }

    let mut conversation = Conversation::about(&names);
    let mut exchanges: Vec<Box<dyn Exchange>> = Vec::new();
    macro_rules! exchange {
        ($($name:literal => $message:ty,)*) => {
            $( if travels($name) {
                exchanges.push(Box::new(MessageExchange::<$message>::start(&conversation.node)));
            } )*
        };
    }
    for_each_message!(exchange);

    let expected = exchanges.len() * Variant::ALL.len();
    let mut waiting: Vec<_> = exchanges.iter().collect();
    conversation.until("the messages", |reports| {
        waiting.retain(|exchange| !exchange.is_complete());
        let reported = reports.iter().filter(|report| report.what == "message").count();
        waiting.is_empty() && reported >= expected
    });
    for exchange in &exchanges {
        exchange.check(&conversation);
    }
    println!("{} types of messages made the round trip, {} variants each", names.len(), Variant::ALL.len());
}

#[test]
fn services_work_in_both_directions() {
    let mut names = Vec::new();
    macro_rules! name {
        ($($name:literal => $service:ty,)*) => {$( names.push($name); )*};
    }
    for_each_service!(name);
    names.retain(|name| name.starts_with("test_msgs/"));
    assert!(!names.is_empty(), "No service was found");

    let mut conversation = Conversation::about(&names);
    macro_rules! call {
        ($($name:literal => $service:ty,)*) => {
            $( if $name.starts_with("test_msgs/") { call::<$service>($name, &mut conversation); } )*
        };
    }
    for_each_service!(call);
    println!("{} services answered in both directions", names.len());
}

#[test]
fn an_action_works_in_both_directions() {
    use ros_env::test_msgs::action::{Fibonacci, Fibonacci_Feedback, Fibonacci_Goal, Fibonacci_Result};
    const NAME: &str = "test_msgs/action/Fibonacci";
    let sequence = || vec![0, 1, 1, 2, 3, 5];

    let mut conversation = Conversation::about(&[NAME]);
    let _server = conversation
        .node
        .create_action_server::<Fibonacci, _>(&format!("to_rust/{NAME}"), move |goal| async move {
            let goal = goal.accept().execute();
            assert_eq!(**goal.goal(), Fibonacci_Goal { order: 5 });
            goal.publish_feedback(Fibonacci_Feedback { sequence: sequence() });
            goal.succeeded_with(Fibonacci_Result { sequence: sequence() })
        })
        .unwrap();

    let client = conversation.node.create_action_client::<Fibonacci>(&format!("to_python/{NAME}")).unwrap();
    let node = conversation.node.clone();
    conversation.until("the discovery of Python's action server and client", |_| {
        let feedback = format!("/to_rust/{NAME}/_action/feedback");
        client.server_is_available().unwrap() && node.count_subscriptions(&feedback).unwrap() > 0
    });
    let mut outcome = conversation.run(async move {
        let mut goal = client.request_goal(Fibonacci_Goal { order: 5 }).await.unwrap();
        (goal.feedback.recv().await, goal.result.await)
    });
    let mut ended = None;
    conversation.until("the results of both goals", |reports| {
        ended = ended.take().or_else(|| outcome.try_recv().unwrap());
        let has = |what| reports.iter().any(|report| report.what == what);
        ended.is_some() && has("feedback") && has("result")
    });

    // A goal has no sequence that Python could echo, so both have its default.
    let (feedback, (status, result)) = ended.unwrap();
    assert_eq!(feedback, Some(Fibonacci_Feedback::default()));
    assert_eq!((status, result), (rclrs::GoalStatusCode::Succeeded, Fibonacci_Result::default()));
    let fields = |what| conversation.received(NAME, what).next().map(|report| report.fields.clone()).unwrap();
    assert_eq!(fields("goal"), serde_json::json!({ "order": 5 }));
    assert_eq!(fields("feedback"), serde_json::json!({ "sequence": sequence() }));
    assert_eq!(fields("result"), serde_json::json!({ "sequence": sequence() }));
    assert_eq!(conversation.received(NAME, "result").next().unwrap().all["status"], 4 /* succeeded */);
}

/// The exchange of one type of messages.
trait Exchange {
    fn is_complete(&self) -> bool;
    fn check(&self, conversation: &Conversation);
}

struct MessageExchange<T: Message + Interface> {
    sent: Vec<T>,
    echoed: Arc<Mutex<Vec<T>>>,
    _publisher: Publisher<T>,
    _subscription: Subscription<T>,
}

impl<T: Message + Interface> MessageExchange<T> {
    fn start(node: &Node) -> Self {
        let name = T::NAME;
        let echoed = Arc::new(Mutex::new(Vec::new()));
        let received = Arc::clone(&echoed);
        let topic = format!("echoed/{name}");
        let subscription = node
            .create_subscription(topic.reliable().transient_local().keep_all(), move |message: T| {
                received.lock().unwrap().push(message)
            })
            .unwrap();
        let topic = format!("sent/{name}");
        let publisher = node.create_publisher(topic.reliable().transient_local().keep_all()).unwrap();
        let sent: Vec<T> = Variant::ALL.map(|variant| T::sample(&mut Source::new(variant))).into();
        for message in &sent {
            publisher.publish(message).unwrap();
        }
        Self { sent, echoed, _publisher: publisher, _subscription: subscription }
    }
}

impl<T: Message + Interface> Exchange for MessageExchange<T> {
    fn is_complete(&self) -> bool {
        self.echoed.lock().unwrap().len() >= self.sent.len()
    }

    fn check(&self, conversation: &Conversation) {
        let name = T::NAME;
        assert_same(&format!("{name}, echoed"), &self.echoed.lock().unwrap(), &self.sent);
        let in_python: Vec<Value> =
            conversation.received(name, "message").map(|report| report.fields.clone()).collect();
        let sent: Vec<Value> = self.sent.iter().map(T::to_json).collect();
        assert_same(&format!("{name}, in Python"), &in_python, &sent);

        let full = conversation.received(name, "message").find(|report| report.fields == sent[0]).unwrap();
        assert_eq!(full.all["defaults"], serde_json::json!([]), "{name}: fields with their default value");

        let new = conversation.received(name, "new").next().expect("Python begins with it");
        assert_eq!(new.fields, T::default().to_json(), "{name}: new in Python, default in Rust");
        let in_python = &new.all["constants"];
        let constants = T::constants();
        let count = in_python.as_object().map(|constants| constants.len());
        assert_eq!(count, Some(constants.len()), "{name}: constants");
        for (constant, value) in constants {
            assert!(same_constant(&value, &in_python[constant]), "{name}.{constant} is {value}");
        }
    }
}

/// Compares without regard to order, which DDS keeps only among messages with the same key.
fn assert_same<V: PartialEq + std::fmt::Debug>(title: &str, received: &[V], sent: &[V]) {
    assert_eq!(received.len(), sent.len(), "{title}: {received:?}");
    for message in sent {
        assert!(received.contains(message), "{title}: {message:?} is not among {received:?}");
    }
}

/// Python has a float32 constant as it was written, Rust as the float32 next to it.
fn same_constant(rust: &Value, python: &Value) -> bool {
    match (rust.as_f64(), python.as_f64()) {
        (Some(rust), Some(python)) if rust == f64::from(rust as f32) => rust as f32 == python as f32,
        _ => rust == python,
    }
}

/// Sends a request to Python, which answers it and sends the same one back to a service here.
fn call<T: Service>(name: &str, conversation: &mut Conversation)
where
    T::Request: Sample,
    T::Response: Sample,
{
    let request = T::Request::sample(&mut Source::new(Variant::Full));
    let response = T::Response::sample(&mut Source::new(Variant::Highest));
    let requests = Arc::new(Mutex::new(Vec::new()));
    let (received, answer) = (Arc::clone(&requests), response.clone());
    let _service = conversation
        .node
        .create_service::<T, _>(&*format!("to_rust/{name}"), move |request: T::Request| {
            received.lock().unwrap().push(request);
            answer.clone()
        })
        .unwrap();
    let client = conversation.node.create_client::<T>(&*format!("to_python/{name}")).unwrap();
    conversation.until("the service", |_| client.service_is_ready().unwrap());
    let mut promise: Promise<T::Response> = client.call(&request).unwrap();

    let mut answered = None;
    conversation.until("both responses", |reports| {
        answered = answered.take().or_else(|| promise.try_recv().unwrap());
        let python_answered = |report: &Report| report.interface == name && report.what == "response";
        answered.is_some() && reports.iter().any(python_answered)
    });

    let from_python = requests.lock().unwrap();
    assert_same(&format!("{name}, request from Python"), &from_python, std::slice::from_ref(&request));
    // test_msgs' responses have the same fields as their requests.
    assert_eq!(answered.unwrap().to_json(), request.to_json(), "{name}: response from Python");
    let reported = |what| conversation.received(name, what).map(|report| &report.fields).collect::<Vec<_>>();
    assert_eq!(reported("request"), [&request.to_json()], "{name}: request in Python");
    assert_eq!(reported("response"), [&response.to_json()], "{name}: response in Python");
}

/// The interfaces of a package that the ament index lists below `namespace`, with their full names.
fn listed(package: &str, namespace: &str) -> BTreeSet<String> {
    let prefixes = env::var_os("AMENT_PREFIX_PATH").unwrap_or_default();
    let index = env::split_paths(&prefixes)
        .map(|prefix| prefix.join("share/ament_index/resource_index/rosidl_interfaces").join(package))
        .find_map(|file| fs::read_to_string(file).ok())
        .unwrap_or_else(|| panic!("No prefix has {package}"));
    let interfaces = index.lines().filter_map(|line| Some(line.rsplit_once('.')?.0));
    interfaces.filter(|name| name.starts_with(namespace)).map(|name| format!("{package}/{name}")).collect()
}
