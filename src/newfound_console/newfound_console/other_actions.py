# SPDX-License-Identifier: Apache-2.0
"""What an operator does on the pages Teach, Draw, Objects and Light."""

from contextlib import suppress
from typing import Any

from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParametersAtomically
from std_srvs.srv import SetBool, Trigger

from newfound_console.bridge import CallError
from newfound_console.console import Console
from newfound_console.live import number
from newfound_console.requests import Action, BadRequestError, node, outlines, text, whole
from newfound_msgs import srv

MAX_OBJECTS = 300  # on the map


class TeachActions:
    """Begin, pause, clear, learn."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def all(self) -> dict[str, Action]:
        """By the names that the page uses."""
        return {"teach": self.teach, "teach_learn": self.learn}

    async def teach(self, body: dict[str, Any]) -> Any:
        """Collect views of a thing, or stop, or begin anew."""
        session = self._console.teaching(node(body, "detector"))
        what = text(body, "do")
        if what == "collect":
            session.begin(whole(body, "track"))
        elif what == "pause":
            session.pause()
        elif what == "clear":
            session.clear()
        else:
            raise BadRequestError("do is collect, pause or clear")
        return session.report()

    async def learn(self, body: dict[str, Any]) -> Any:
        """Learn the thing from its views."""
        detector, label = node(body, "detector"), text(body, "label")
        state = self._console.detectors.get(detector)
        known = state.known_label(label) if state is not None else None
        label = known or label
        job = await self._console.teaching(detector).learn(label, extend=known is not None)
        return {"job": job, "label": label}


class DrawActions:
    """Take a picture, keep what was drawn in it, learn."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def all(self) -> dict[str, Action]:
        """By the names that the page uses."""
        return {"draw": self.draw, "draw_learn": self.learn}

    async def draw(self, body: dict[str, Any]) -> Any:
        """Take or keep a picture, throw one or all away."""
        session = self._console.drawing(node(body, "segmenter"))
        what = text(body, "do")
        if what == "take":
            return session.take()
        if what == "keep":
            session.keep(whole(body, "id"), outlines(body, "outlines"))
        elif what == "remove":
            session.remove(whole(body, "id"))
        elif what == "clear":
            session.clear()
        else:
            raise BadRequestError("do is take, keep, remove or clear")
        return session.report()

    async def learn(self, body: dict[str, Any]) -> Any:
        """Learn the class from what was drawn."""
        session = self._console.drawing(node(body, "segmenter"))
        return {"job": await session.learn(text(body, "label"))}


class ObjectActions:
    """Find and forget what an object memory has seen."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def all(self) -> dict[str, Action]:
        """By the names that the page uses."""
        return {"objects": self.objects, "forget_object": self.forget}

    async def objects(self, body: dict[str, Any]) -> Any:
        """What was seen last, and all that has the name which is searched for."""
        memory, wanted = node(body, "memory"), text(body, "label", "")
        request = srv.ListObjects.Request(limit=MAX_OBJECTS, views=True)
        call = self._console.bridge.call
        answer = await call(srv.ListObjects, f"{memory}/list_objects", request)
        found = {each.id: each for each in answer.objects}
        full = len(found) == MAX_OBJECTS
        # The page shows names without underscores.
        for label in {wanted, wanted.replace(" ", "_")} if wanted and full else ():
            asked = srv.FindObject.Request(label=label, limit=MAX_OBJECTS, views=True)
            with suppress(CallError):  # nothing of that name
                more = await call(srv.FindObject, f"{memory}/find_object", asked)
                found |= {each.id: each for each in more.objects}
        return {"objects": [self._shown(each) for each in found.values()], "full": full}

    def _shown(self, each: Any) -> dict[str, Any]:
        at, size = each.pose.position, each.size
        return {
            "id": each.id,
            "label": each.label,
            "frame": each.header.frame_id,
            "position": [number(at.x), number(at.y), number(at.z)],
            "size": [number(size.x), number(size.y), number(size.z)],
            "error": number(each.position_error),
            "presence": number(each.presence),
            "sightings": each.sightings,
            "seen": each.last_seen.sec,
            "picture": self._console.pictures.add(bytes(each.view.data)),
        }

    async def forget(self, body: dict[str, Any]) -> Any:
        """Forget one of them."""
        request = srv.ForgetObject.Request(id=text(body, "id"))
        service = f"{node(body, 'memory')}/forget_object"
        await self._console.bridge.call(srv.ForgetObject, service, request)
        return {}


class LightActions:
    """Freeze, begin anew, save and restore how a node follows the light."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def all(self) -> dict[str, Action]:
        """By the names that the page uses."""
        return {"light": self.light}

    async def light(self, body: dict[str, Any]) -> Any:
        """Do something with a node's adaptation."""
        name, what = node(body, "node"), text(body, "do")
        found = self._console.directory.nodes.get(name)
        if found is None:
            raise CallError("that part is not running")
        call = self._console.bridge.call
        if what in ("freeze", "follow"):
            frozen = what == "freeze"
            if found.kind != "detector":
                await call(SetBool, f"{name}/freeze", SetBool.Request(data=frozen))
                return {}
            value = ParameterValue(type=ParameterType.PARAMETER_BOOL, bool_value=frozen)
            request = SetParametersAtomically.Request(
                parameters=[Parameter(name="freeze", value=value)]
            )
            service = f"{name}/set_parameters_atomically"
            answer = await call(SetParametersAtomically, service, request)
            if not answer.result.successful:
                raise CallError(answer.result.reason)
            return {}
        services = {"reset": "reset", "save": "save", "restore": "restore"}
        if found.kind == "detector":
            services = {"reset": "reset_adaptation"}
        if what not in services:
            raise BadRequestError("that cannot be done with this part")
        await call(Trigger, f"{name}/{services[what]}", Trigger.Request())
        return {}
