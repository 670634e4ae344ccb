# SPDX-License-Identifier: Apache-2.0
"""Export, inspect and import packages of knowledge, and make the key that signs them.

    ros2 run newfound_core package keygen
    ros2 run newfound_core package export ROOT mug mug.nfp
    ros2 run newfound_core package inspect mug.nfp
    ros2 run newfound_core package import ROOT mug.nfp

ROOT is a knowledge base. While a detector uses it, import through that node's service instead.
Files may be addresses of any store that fsspec knows, such as s3://bucket/mug.nfp.
"""

import argparse
import json
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from newfound_core.errors import NewfoundError, StorageError
from newfound_core.learning.job import JobState
from newfound_core.packages.archive import MOST_BYTES, check_trust, pack, unpack
from newfound_core.packages.classes import export_class, import_class
from newfound_core.packages.keys import SIGNING_NAME, SigningKey, default_keys
from newfound_core.storage import write_bytes


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
    export = commands.add_parser("export", parents=[keys], help="write a class to a file")
    export.add_argument("root", type=Path, help="knowledge base, or open-world checkpoint")
    export.add_argument("label")
    export.add_argument("file")
    export.add_argument("--robot", default=socket.gethostname(), help="who gives it away")
    export.add_argument("--unsigned", action="store_true", help="others will not trust it")
    inspect = commands.add_parser("inspect", parents=[keys], help="show what a package holds")
    inspect.add_argument("file")
    load = commands.add_parser("import", parents=[keys], help="learn a packaged class")
    load.add_argument("root", type=Path, help="knowledge base that no node is using")
    load.add_argument("file")
    load.add_argument("--unsigned", action="store_true", help="needs no trusted signature")
    load.add_argument("--extend", action="store_true", help="a known class gets further views")
    return parser


def _keygen(options: argparse.Namespace) -> int:
    key = SigningKey.create(options.keys)
    print(f"{options.keys / SIGNING_NAME} signs packages from now on. Give others this, to be put")
    print("into a file <name>.pub in the folder trusted beside theirs:")
    print(key.public.text)
    return 0


def _export(options: argparse.Namespace) -> int:
    current = options.root / "current"
    version = current if current.exists() else options.root
    package = export_class(version, options.label, options.robot)
    key = None if options.unsigned else SigningKey.load(options.keys)
    content = pack(package, key)
    _write(options.file, content)
    print(f"{package.name!r}, {len(package.files)} images, {len(content)} bytes: {options.file}")
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
    status = import_class(options.root, package, extend=options.extend)
    print(f"{status.label!r}: {status.state} {status.message}".strip())
    return 0 if status.state is JobState.DONE else 3


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
