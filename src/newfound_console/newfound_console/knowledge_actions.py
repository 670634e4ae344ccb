# SPDX-License-Identifier: Apache-2.0
"""What an operator does with knowledge: look at it, undo, forget, rename, clean up."""

import base64
from collections import Counter
from typing import Any

from newfound_console.bridge import CallError
from newfound_console.console import Console
from newfound_console.live import number
from newfound_console.requests import Action, BadRequestError, node, text, texts, whole
from newfound_msgs import srv

EXAMPLES = 60  # of a class, on its page
OF_EACH = 6  # of every class, for a rehearsal


class KnowledgeActions:
    """Versions and classes of a detector."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def all(self) -> dict[str, Action]:
        """By the names that the page uses."""
        return {
            "versions": self.versions,
            "undo": self.undo,
            "restore": self.restore,
            "forget": self.forget,
            "rename": self.rename,
            "examples": self.examples,
            "remove": self.remove,
            "check": self.check,
            "rehearse": self.rehearse,
            "export": self.export,
            "import": self.take_package,
        }

    async def _call(self, kind: Any, body: dict[str, Any], service: str, **fields: Any) -> Any:
        name = f"{node(body, 'detector')}/{service}"
        return await self._console.bridge.call(kind, name, kind.Request(**fields))

    async def versions(self, body: dict[str, Any]) -> Any:
        """Newest first, each with what changed from the one before."""
        answer = await self._call(srv.ListVersions, body, "list_versions")
        found: list[dict[str, Any]] = []
        before: set[str] | None = None
        for each in answer.versions:
            labels = set(each.labels)
            found.append(
                {
                    "version": each.version,
                    "made": each.made.sec,
                    "reason": each.reason,
                    "classes": len(labels),
                    "in_use": each.in_use,
                    "added": sorted(labels - before) if before is not None else [],
                    "removed": sorted(before - labels) if before is not None else [],
                }
            )
            before = labels
        return {"versions": found[::-1]}

    async def undo(self, body: dict[str, Any]) -> Any:
        """Go back to the version before the one in use; done twice, it is as it was."""
        answer = await self._call(srv.ListVersions, body, "list_versions")
        in_use = next((v.version for v in answer.versions if v.in_use), 0)
        earlier = [v.version for v in answer.versions if v.version < in_use]
        if not earlier:
            raise CallError("there is nothing to undo")
        await self._call(srv.RestoreKnowledge, body, "restore_knowledge", version=max(earlier))
        return {"version": max(earlier)}

    async def restore(self, body: dict[str, Any]) -> Any:
        """Go back to any version."""
        version = whole(body, "version")
        await self._call(srv.RestoreKnowledge, body, "restore_knowledge", version=version)
        return {}

    async def forget(self, body: dict[str, Any]) -> Any:
        """Forget a class."""
        await self._call(srv.ForgetClass, body, "forget_class", label=text(body, "label"))
        return {}

    async def rename(self, body: dict[str, Any]) -> Any:
        """Give a class another name."""
        label, new = text(body, "label"), text(body, "new_label")
        await self._call(srv.RenameClass, body, "rename_class", label=label, new_label=new)
        return {}

    async def export(self, body: dict[str, Any]) -> Any:
        """A class as a file for other robots."""
        answer = await self._call(srv.ExportClass, body, "export_class", label=text(body, "label"))
        return {
            "file_name": answer.file_name,
            "package": base64.b64encode(bytes(answer.package)).decode(),
            "note": answer.message,
        }

    async def take_package(self, body: dict[str, Any]) -> Any:
        """Learn the class of such a file."""
        content = body.get("package")
        try:
            package = base64.b64decode(content if isinstance(content, str) else "", validate=True)
        except ValueError:
            raise BadRequestError("package is not base64") from None
        if not package:
            raise BadRequestError("package is missing")
        answer = await self._call(srv.ImportPackage, body, "import_package", package=package)
        return {"label": answer.label, "signer": answer.signer}

    async def examples(self, body: dict[str, Any]) -> Any:
        """Pictures of a class, and what the robot calls each of them now."""
        answer = await self._call(
            srv.ListExamples,
            body,
            "list_examples",
            label=text(body, "label"),
            versions=[0],
            limit=EXAMPLES,
            images=True,
        )
        pictures = self._console.pictures
        return {
            "examples": [
                {
                    "id": each.id,
                    "picture": pictures.add(bytes(each.image.data)),
                    "source": each.source,
                    "held_out": each.held_out,
                    "called": each.answers[0] if each.answers else "",
                    "score": number(each.scores[0]) if each.scores else None,
                }
                for each in answer.examples
            ]
        }

    async def remove(self, body: dict[str, Any]) -> Any:
        """Learn a class anew without some of its pictures."""
        label, ids = text(body, "label"), texts(body, "ids")
        await self._call(srv.RemoveExamples, body, "remove_examples", label=label, ids=ids)
        return {}

    async def check(self, body: dict[str, Any]) -> Any:
        """How well each class is recognised on stored pictures, and what it is taken for."""
        found = await self._answers(body, [0])
        classes: dict[str, Any] = {}
        for each in found:
            if each.label:
                entry = classes.setdefault(each.label, {"n": 0, "right": 0, "sure": 0.0, "as": []})
                entry["n"] += 1
                entry["right"] += each.answers[0] == each.label
                entry["sure"] += each.scores[0]
                if each.answers[0] != each.label:
                    entry["as"].append(each.answers[0])
        for entry in classes.values():
            entry["sure"] = number(entry["sure"] / entry["n"])
            entry["as"] = [[label, n] for label, n in Counter(entry["as"]).most_common(3)]
        return {"classes": classes}

    async def rehearse(self, body: dict[str, Any]) -> Any:
        """What stored pictures would be called by another version: only what would change."""
        version = whole(body, "version")
        found = await self._answers(body, [0, version])
        changed: Counter[tuple[str, str, str]] = Counter()
        right = [0, 0]
        named = [each for each in found if each.label]
        for each in found:
            now, then = each.answers
            if now != then:
                changed[each.label, now, then] += 1
        for each in named:
            right[0] += each.answers[0] == each.label
            right[1] += each.answers[1] == each.label
        return {
            "pictures": len(found),
            "named": len(named),
            "right_now": right[0],
            "right_then": right[1],
            "changes": [
                {"label": label, "now": now, "then": then, "pictures": count}
                for (label, now, then), count in changed.most_common(40)
            ],
        }

    async def _answers(self, body: dict[str, Any], versions: list[int]) -> list[Any]:
        answer = await self._call(
            srv.ListExamples, body, "list_examples", versions=versions, limit=OF_EACH
        )
        return list(answer.examples)
