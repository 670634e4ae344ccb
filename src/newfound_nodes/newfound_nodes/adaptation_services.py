# SPDX-License-Identifier: Apache-2.0
"""What people can ask an adapting node for: ~/reset, ~/freeze, ~/save and ~/restore."""

from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_srvs.srv import SetBool, Trigger

from newfound_nodes.adaptation import Adaptation
from newfound_nodes.adaptation_store import StateError

SAVED = "saved"  # the state that ~/save writes; what a node writes by itself is another


class AdaptationServices:
    """The services of one node; each answers what was done, or why not.

    `adaptation` gives what they act upon, None while there is none; `done` is called after each.
    """

    def __init__(
        self,
        node: Node,
        group: CallbackGroup,
        adaptation: Callable[[], Adaptation | None],
        done: Callable[[], None],
    ) -> None:
        self._node, self._adaptation, self._done = node, adaptation, done
        actions = {"reset": self._reset, "save": self._save, "restore": self._restore}
        for name, action in actions.items():
            node.create_service(
                Trigger, f"~/{name}", self._answering(action), callback_group=group
            )
        node.create_service(
            SetBool, "~/freeze", self._answering(self._freeze), callback_group=group
        )

    def _answering(self, action: Callable[[Adaptation, Any], str]) -> Callable[[Any, Any], Any]:
        def answer(request: Any, response: Any) -> Any:
            adaptation = self._adaptation()
            if adaptation is None:
                response.success = False
                response.message = "nothing adapts: not configured, or the parameter adapt is off"
                return response
            try:
                response.message, response.success = action(adaptation, request), True
            except StateError as error:
                response.message, response.success = str(error), False
            self._done()
            return response

        return answer

    def _reset(self, adaptation: Adaptation, _: Trigger.Request) -> str:
        adaptation.reset()
        return "the statistics are those of the source again"

    def _freeze(self, _: Adaptation, request: SetBool.Request) -> str:
        # By the parameter, so that it always tells what is so.
        self._node.set_parameters([Parameter("freeze", value=request.data)])
        return "frozen" if request.data else "follows the stream"

    def _save(self, adaptation: Adaptation, _: Trigger.Request) -> str:
        return f"saved as {adaptation.save(SAVED)}"

    def _restore(self, adaptation: Adaptation, _: Trigger.Request) -> str:
        return f"goes on from {adaptation.restore(SAVED)}"
