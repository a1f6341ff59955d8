// SPDX-License-Identifier: Apache-2.0
//! Sends interfaces from Rust to Python and back over the real middleware.
//!
//! Python also reports the values that it received. So the tests even find an error of a conversion in Rust that the
//! conversion in the other direction would cancel out.

use std::sync::{Arc, Mutex};

use generated_crates::{
    for_each_message,
    sample::{Interface, Sample, Source, Variant},
};
use rclrs::{IntoPrimitiveOptions, Node};
use rosidl_runtime_rs::{Message, Service};
use serde_json::{json, Value};

use crate::rclpy::Conversation;

/// The packages of ROS 2, whose messages are sent. For other packages only the layout is checked, because rclpy does
/// not support every type of IDL (rclpy aborts on a `wchar`).
const PACKAGES: &str =
    "action_msgs builtin_interfaces diagnostic_msgs geometry_msgs lifecycle_msgs rcl_interfaces \
     rmw_dds_common rosgraph_msgs sensor_msgs service_msgs statistics_msgs std_msgs test_msgs \
     type_description_interfaces unique_identifier_msgs";

fn travels(name: &str) -> bool {
    PACKAGES.split(' ').any(|package| name.split('/').next() == Some(package))
}

#[test]
fn every_message_arrives_in_python_and_comes_back() {
    let mut names = vec![];
    macro_rules! name {
        ($($name:literal => $message:ty,)*) => {$( names.push($name); )*};
    }
    for_each_message!(name);
    names.retain(|name| travels(name));
    assert!(names.contains(&"test_msgs/msg/BoundedSequences"), "{names:?}");

    let mut conversation = Conversation::start(&names);
    let mut exchanges = vec![];
    macro_rules! exchange {
        ($($name:literal => $message:ty,)*) => {
            $( if travels($name) { exchanges.push(exchange::<$message>(&conversation.node)); } )*
        };
    }
    for_each_message!(exchange);

    let expected = exchanges.len() * Variant::ALL.len();
    conversation.until("the messages", |reports| {
        let echoed: usize = exchanges.iter().map(|(count, _)| count()).sum();
        let reported = reports.iter().filter(|report| report["what"] == "message").count();
        echoed >= expected && reported >= expected
    });
    exchanges.iter().for_each(|(_, check)| check(&conversation));
}

#[test]
fn services_work_in_both_directions() {
    use ros_env::test_msgs::srv::{Arrays, BasicTypes, Empty};
    const NAMES: [&str; 3] = ["test_msgs/srv/Arrays", "test_msgs/srv/BasicTypes", "test_msgs/srv/Empty"];
    let mut conversation = Conversation::start(&NAMES);
    call::<Arrays>(NAMES[0], &mut conversation);
    call::<BasicTypes>(NAMES[1], &mut conversation);
    call::<Empty>(NAMES[2], &mut conversation);
}

#[test]
fn an_action_works_in_both_directions() {
    use ros_env::test_msgs::action::{Fibonacci, Fibonacci_Feedback, Fibonacci_Goal, Fibonacci_Result};
    const NAME: &str = "test_msgs/action/Fibonacci";
    let sequence = || vec![0, 1, 1, 2, 3, 5];

    let mut conversation = Conversation::start(&[NAME]);
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
    let mut outcome = conversation.executor.commands().run(async move {
        let mut goal = client.request_goal(Fibonacci_Goal { order: 5 }).await.unwrap();
        (goal.feedback.recv().await, goal.result.await)
    });
    let mut ended = None;
    conversation.until("the results of both goals", |reports| {
        ended = ended.take().or_else(|| outcome.try_recv().unwrap());
        let has = |what| reports.iter().any(|report| report["what"] == what);
        ended.is_some() && has("feedback") && has("result")
    });

    // The goal has no sequence that Python could copy, so Python sends the default feedback and result.
    let (feedback, (status, result)) = ended.unwrap();
    assert_eq!(feedback, Some(Fibonacci_Feedback::default()));
    assert_eq!((status, result), (rclrs::GoalStatusCode::Succeeded, Fibonacci_Result::default()));
    let first = |what| conversation.received(NAME, what)[0];
    assert_eq!(first("goal")["fields"], json!({ "order": 5 }));
    assert_eq!(first("feedback")["fields"], json!({ "sequence": sequence() }));
    assert_eq!(first("result")["fields"], json!({ "sequence": sequence() }));
    assert_eq!(first("result")["status"], 4 /* succeeded */);
}

/// Two functions: the first returns the number of messages that have come back, the second compares sent and received
/// messages.
type Exchange = (Box<dyn Fn() -> usize>, Box<dyn Fn(&Conversation)>);

/// Publishes messages of a type to Python, and subscribes to the messages that come back.
fn exchange<T: Message + Interface>(node: &Node) -> Exchange {
    let name = T::NAME;
    let echoed = Arc::new(Mutex::new(Vec::<T>::new()));
    let [received, count] = [(); 2].map(|()| Arc::clone(&echoed));
    let topic = format!("echoed/{name}");
    let options = topic.reliable().transient_local().keep_all();
    let subscription =
        node.create_subscription(options, move |message: T| received.lock().unwrap().push(message)).unwrap();
    let topic = format!("sent/{name}");
    let publisher = node.create_publisher(topic.reliable().transient_local().keep_all()).unwrap();
    let sent: Vec<T> = Variant::ALL.map(|variant| T::sample(&mut Source::new(variant))).into();
    sent.iter().for_each(|message| publisher.publish(message).unwrap());

    let check = move |conversation: &Conversation| {
        let _are_kept = (&publisher, &subscription);
        assert_equal_messages(&format!("{name}, echoed"), &echoed.lock().unwrap(), &sent);
        let reports = conversation.received(name, "message");
        let in_python: Vec<_> = reports.iter().map(|report| report["fields"].clone()).collect();
        let sent: Vec<Value> = sent.iter().map(T::to_json).collect();
        assert_equal_messages(&format!("{name}, in Python"), &in_python, &sent);
        let new = conversation.received(name, "new")[0];
        assert_eq!(new["fields"], T::default().to_json(), "{name}: new in Python, default in Rust");
    };
    (Box::new(move || count.lock().unwrap().len()), Box::new(check))
}

/// Compares messages in any order, because DDS keeps the order only among messages with the same key.
fn assert_equal_messages<V: PartialEq + std::fmt::Debug>(title: &str, received: &[V], sent: &[V]) {
    assert_eq!(received.len(), sent.len(), "{title}: {received:?}");
    for message in sent {
        assert!(received.contains(message), "{title}: {message:?} is not among {received:?}");
    }
}

/// Sends a request to Python, which answers it and sends the same request to a service in this process.
fn call<T: Service>(name: &str, conversation: &mut Conversation)
where
    T::Request: Sample,
    T::Response: Sample,
{
    let request = T::Request::sample(&mut Source::new(Variant::Full));
    let response = T::Response::sample(&mut Source::new(Variant::Highest));
    let requests = Arc::new(Mutex::new(vec![]));
    let (received, answer) = (Arc::clone(&requests), response.clone());
    let service = move |request: T::Request| {
        received.lock().unwrap().push(request);
        answer.clone()
    };
    let _service = conversation.node.create_service::<T, _>(&*format!("to_rust/{name}"), service).unwrap();
    let client = conversation.node.create_client::<T>(&*format!("to_python/{name}")).unwrap();
    conversation.until("the service", |_| client.service_is_ready().unwrap());
    let mut promise: rclrs::Promise<T::Response> = client.call(&request).unwrap();

    let mut answered = None;
    conversation.until("both responses", |reports| {
        answered = answered.take().or_else(|| promise.try_recv().unwrap());
        let is_response = |report: &Value| report["interface"] == name && report["what"] == "response";
        answered.is_some() && reports.iter().any(is_response)
    });

    assert_equal_messages(
        &format!("{name}, request from Python"),
        &requests.lock().unwrap(),
        std::slice::from_ref(&request),
    );
    // In test_msgs, a response has the same fields as the request, and Python copies these fields.
    assert_eq!(answered.unwrap().to_json(), request.to_json(), "{name}: response from Python");
    for (what, sent) in [("request", request.to_json()), ("response", response.to_json())] {
        let reports = conversation.received(name, what);
        assert_eq!((reports.len(), &reports[0]["fields"]), (1, &sent), "{name}: {what} in Python");
    }
}
