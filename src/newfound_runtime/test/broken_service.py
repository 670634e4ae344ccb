# SPDX-License-Identifier: Apache-2.0
"""A node with a service whose callback raises, as a process of its own."""

from std_msgs.msg import Empty
from std_srvs.srv import Trigger

from newfound_runtime.container import run
from newfound_runtime.testing import Echo


class Broken(Echo):
    def __init__(self, *arguments, **keywords) -> None:
        super().__init__(*arguments, **keywords)
        self.create_service(Trigger, "~/explode", self.explode)
        self.called = self.create_publisher(Empty, "~/called", 1)

    def explode(self, request, response):
        self.called.publish(Empty())
        raise RuntimeError("boom")


if __name__ == "__main__":
    raise SystemExit(run(Broken))
