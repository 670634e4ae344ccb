# SPDX-License-Identifier: Apache-2.0
import threading

import rclpy
from std_msgs.msg import Header

from newfound_runtime import rclpy_compat
from newfound_runtime.testing import eventually, profile


def Receiver(node, kind, topic, receive):  # noqa: N802
    qos = profile(reliable=True)
    return rclpy_compat.Receiver(
        node, kind, topic, receive, qos, on_error=print, on_incompatible=print
    )


def header(number: int) -> Header:
    message = Header()
    message.stamp.sec = number
    return message


def receivers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "quiet-receiver"]


def test_messages_arrive_in_order_without_any_executor(ros):
    node = rclpy.create_node("quiet", context=ros.context)  # nobody spins it
    received = []
    receiver = Receiver(node, Header, "/topic", received.append)
    publisher = ros.publisher(Header, "/topic")
    ros.connected(publisher)
    for number in range(20):
        publisher.publish(header(number))
    eventually(lambda: len(received) == 20)
    assert [message.stamp.sec for message in received] == list(range(20))
    receiver.close()
    node.destroy_node()


def test_after_closing_nothing_arrives_and_nobody_is_subscribed(ros):
    node = rclpy.create_node("quiet", context=ros.context)
    ros.executor.add_node(node)  # an executor must not take what is the receiver's
    received = []
    receiver = Receiver(node, Header, "/topic", received.append)
    publisher = ros.publisher(Header, "/topic")
    ros.connected(publisher)
    receiver.close()
    publisher.publish(header(1))
    eventually(lambda: publisher.get_subscription_count() == 0, "unsubscribed")
    assert received == []
    assert receivers() == []
    ros.executor.remove_node(node)
    node.destroy_node()


def test_the_thread_ends_with_the_context():
    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node("quiet", context=context)
    Receiver(node, Header, "/topic", lambda message: None)
    rclpy.shutdown(context=context)
    eventually(lambda: receivers() == [], "the thread ended")
    node.destroy_node()
