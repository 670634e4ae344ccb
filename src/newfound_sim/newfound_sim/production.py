# SPDX-License-Identifier: Apache-2.0
"""Write many files from several processes; a run killed at any moment can be continued."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Self, TypeVar

import cv2
import numpy as np
from tqdm import tqdm

from newfound_core.storage import remove_leftovers, write_bytes
from newfound_sim.errors import DatasetError
from newfound_sim.rendering import use_threads

Task = TypeVar("Task")


class Workers:
    """Worker processes for rounds of independent tasks; they are started when first needed.

    One worker works in this process. Use as a context manager.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        context = multiprocessing.get_context("spawn")  # Mitsuba's threads do not survive a fork
        self._pool = ProcessPoolExecutor(max(1, count), context, initializer=_start_worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        self._pool.shutdown(wait=not interrupted, cancel_futures=interrupted)

    def run(self, tasks: Sequence[Task], make: Callable[[Task], None], title: str) -> None:
        """Call make(task) for every task, with a progress bar."""
        if self._count <= 1:
            for task in tqdm(tasks, desc=title, unit="image"):
                make(task)
            return
        chunk = max(1, min(8, len(tasks) // (4 * self._count)))
        try:
            done = self._pool.map(make, tasks, chunksize=chunk)
            for _ in tqdm(done, desc=title, unit="image", total=len(tasks)):
                pass
        except BrokenProcessPool as error:
            raise DatasetError(
                "a worker process was ended from outside (out of memory?). What is finished is "
                "kept: run the same command again to continue, perhaps with fewer --workers."
            ) from error


def produce(
    tasks: Sequence[Task], make: Callable[[Task], None], workers: int, title: str = "images"
) -> None:
    """Call make(task) for every task, in this many processes."""
    with Workers(workers) as pool:
        pool.run(tasks, make, title)


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    cv2.setNumThreads(1)
    use_threads(1)


def _exit_with_parent() -> None:
    """Exit when the parent was killed: a worker would wait for tasks for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def write_jpeg(path: Path, rgb: np.ndarray, quality: int = 95) -> None:
    """Write an RGB image as a JPEG file, atomically."""
    _, coded = cv2.imencode(".jpg", rgb[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    write_bytes(path, coded.tobytes())


def write_depth(path: Path, depth: np.ndarray) -> None:
    """Write depth, uint16 in millimetres, as a PNG file, atomically."""
    _, coded = cv2.imencode(".png", depth)
    write_bytes(path, coded.tobytes())


def write_mask(path: Path, mask: np.ndarray) -> None:
    """Write a mask, uint8, as a PNG file, atomically."""
    _, coded = cv2.imencode(".png", mask)
    write_bytes(path, coded.tobytes())


def millimetres(depth: np.ndarray) -> np.ndarray:
    """Convert depth in metres to uint16 millimetres; 0 where it is infinite or too far."""
    scaled = np.rint(depth.astype(np.float64) * 1000)
    return np.where(scaled <= 65535, scaled, 0).astype(np.uint16)


def clean(folder: Path) -> None:
    """Remove what an interrupted run left half written, at any depth below a folder."""
    for each in [folder, *(entry for entry in folder.rglob("*") if entry.is_dir())]:
        remove_leftovers(each)


def stream(*keys: int | str) -> np.random.Generator:
    """Random numbers that belong to these keys: the same in every process and order of work."""
    words = [k if isinstance(k, int) else int.from_bytes(k.encode(), "little") for k in keys]
    return np.random.default_rng(words)
