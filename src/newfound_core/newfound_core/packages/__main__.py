# SPDX-License-Identifier: Apache-2.0
"""Export, inspect and import packages of knowledge, and make the key that signs them.

    ros2 run newfound_core package keygen
    ros2 run newfound_core package export ROOT mug mug.nfp
    ros2 run newfound_core package inspect mug.nfp
    ros2 run newfound_core package import ROOT mug.nfp

ROOT is the knowledge base of a detector or a segmenter. While that node uses it, import through
the node's service instead. Or it is a folder of tasks, of which one is exported or added: import
needs their --base then.
Files may be addresses of any store that fsspec knows, such as s3://bucket/mug.nfp.
"""

import argparse
import json
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from newfound_core.checkpoint import JSON_NAME
from newfound_core.errors import DataError, NewfoundError, StorageError
from newfound_core.knowledge.segments import METHOD as SEGMENTATION
from newfound_core.learning.job import JobState
from newfound_core.packages.archive import MOST_BYTES, PackageError, check_trust, pack, unpack
from newfound_core.packages.classes import export_class, import_class
from newfound_core.packages.keys import SIGNING_NAME, SigningKey, default_keys
from newfound_core.packages.segments import export_segment, import_segment
from newfound_core.packages.tasks import export_task, import_task
from newfound_core.storage import read_json, write_bytes


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if it was done, 3 if a class was not learned, 2 for everything else."""
    options = _parser().parse_args(arguments)
    try:
        return {
            "keygen": _keygen,
            "export": _export,
            "inspect": _inspect,
            "import": _import,
        }[options.command](options)
    except NewfoundError as error:
        print(f"package: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "package", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    keys = argparse.ArgumentParser(add_help=False)
    keys.add_argument("--keys", type=Path, default=default_keys(), help="folder of keys")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("keygen", parents=[keys], help="make this robot's signing key")
    export = commands.add_parser(
        "export", parents=[keys], help="write a class or a task to a file"
    )
    export.add_argument(
        "root", type=Path, help="knowledge base, its checkpoint, or folder of tasks"
    )
    export.add_argument("label", help="the class, or the task's folder")
    export.add_argument("file")
    export.add_argument("--robot", default=socket.gethostname(), help="who gives it away")
    export.add_argument("--unsigned", action="store_true", help="others will not trust it")
    inspect = commands.add_parser("inspect", parents=[keys], help="show what a package holds")
    inspect.add_argument("file")
    load = commands.add_parser(
        "import", parents=[keys], help="learn a packaged class, or add a task"
    )
    load.add_argument(
        "root", type=Path, help="knowledge base that no node is using, or folder of tasks"
    )
    load.add_argument("file")
    load.add_argument("--unsigned", action="store_true", help="needs no trusted signature")
    load.add_argument("--extend", action="store_true", help="a known class gets further views")
    load.add_argument("--base", default="", help="of a task: checkpoint, weights or imagenet")
    load.add_argument("--replace", action="store_true", help="a task of that name is exchanged")
    return parser


def _keygen(options: argparse.Namespace) -> int:
    key = SigningKey.create(options.keys)
    print(f"{options.keys / SIGNING_NAME} signs packages from now on. Give others this, to be put")
    print("into a file <name>.pub in the folder trusted beside theirs:")
    print(key.public.text)
    return 0


def _export(options: argparse.Namespace) -> int:
    version, task = _version(options.root), options.root / options.label
    if (task / JSON_NAME).is_file():
        package = export_task(task, options.robot)
    else:
        export = export_segment if _is_segmenter(version) else export_class
        package = export(version, options.label, options.robot)
    key = None if options.unsigned else SigningKey.load(options.keys)
    content = pack(package, key)
    _write(options.file, content)
    files = f"{len(package.details['images'])} images, " if "images" in package.details else ""
    print(f"{package.name!r}, {files}{len(content)} bytes: {options.file}")
    return 0


def _inspect(options: argparse.Namespace) -> int:
    package = unpack(_read(options.file))
    try:
        signer = check_trust(package, options.keys)
        trust = f"signed by {signer}"
    except NewfoundError as error:
        trust = str(error)
    found = json.loads(package.manifest())
    print(json.dumps({**found, "digest": package.digest, "trust": trust}, indent=1))
    return 0


def _import(options: argparse.Namespace) -> int:
    package = unpack(_read(options.file))
    check_trust(package, options.keys, require_signature=not options.unsigned)
    if package.kind == "task_delta":
        if not options.base:
            raise PackageError("it holds a task: give the network it belongs to as --base")
        folder = import_task(options.root, package, options.base, replace=options.replace)
        print(f"{package.name!r}: {folder}")
        return 0
    if not _is_segmenter(_version(options.root)):
        status = import_class(options.root, package, extend=options.extend)
    elif options.extend:
        raise PackageError("a segmenter learns a class once: it cannot be extended")
    else:
        status = import_segment(options.root, package)
    print(f"{status.label!r}: {status.state} {status.message}".strip())
    return 0 if status.state is JobState.DONE else 3


def _version(root: Path) -> Path:
    """The version in use of a knowledge base; anything else as it is."""
    current = root / "current"
    return current if current.exists() else root


def _is_segmenter(version: Path) -> bool:
    """Whether a segmentation network is there; what is there instead, its reader says."""
    try:
        return read_json(version / JSON_NAME).get("method") == SEGMENTATION
    except (DataError, OSError):
        return False


def _read(address: str) -> bytes:
    try:
        if "://" in address:
            import fsspec

            with fsspec.open(address, "rb") as file:
                return file.read(MOST_BYTES + 1)
        with Path(address).open("rb") as local:
            return local.read(MOST_BYTES + 1)
    except (OSError, ImportError, ValueError) as error:
        raise StorageError(f"{address} cannot be read: {error}") from error


def _write(address: str, content: bytes) -> None:
    try:
        if "://" in address:
            import fsspec

            with fsspec.open(address, "wb") as file:
                file.write(content)
        else:
            write_bytes(Path(address), content)
    except (OSError, ImportError, ValueError) as error:
        raise StorageError(f"{address} cannot be written: {error}") from error


if __name__ == "__main__":
    sys.exit(main())
