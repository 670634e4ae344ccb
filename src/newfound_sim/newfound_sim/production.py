# SPDX-License-Identifier: Apache-2.0
"""Making many files over processes so that a kill at any moment loses nothing but time."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TypeVar

import cv2
import numpy as np
from tqdm import tqdm

from newfound_sim.errors import DatasetError
from newfound_sim.rendering import use_threads

Task = TypeVar("Task")
PARTIAL = ".partial"  # the ending of a file that is being written


def produce(
    tasks: Sequence[Task], make: Callable[[Task], None], workers: int, title: str = "images"
) -> None:
    """Run make(task) for every task, with a progress bar; one worker works in this process."""
    if workers <= 1:
        for task in tqdm(tasks, desc=title, unit="image"):
            make(task)
        return
    fresh = multiprocessing.get_context("spawn")  # Mitsuba's threads do not survive a fork
    with ProcessPoolExecutor(workers, fresh, initializer=_begin) as pool:
        try:
            done = pool.map(make, tasks, chunksize=max(1, min(8, len(tasks) // (4 * workers))))
            for _ in tqdm(done, desc=title, unit="image", total=len(tasks)):
                pass
        except BrokenProcessPool as error:
            raise DatasetError(
                "a worker process was ended from outside (out of memory?). What is finished is "
                "kept: run the same command again to continue, perhaps with fewer --workers."
            ) from error
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    threading.Thread(target=_end_with_parent, daemon=True).start()
    cv2.setNumThreads(1)
    use_threads(1)


def _end_with_parent() -> None:
    """A worker whose parent was killed would otherwise wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it exists either completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}{PARTIAL}")
    partial.write_bytes(content)
    partial.replace(path)


def write_jpeg(path: Path, rgb: np.ndarray, quality: int = 95) -> None:
    """Write an RGB picture as a whole JPEG file."""
    _, coded = cv2.imencode(".jpg", rgb[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    write_whole(path, coded.tobytes())


def write_depth(path: Path, millimetres: np.ndarray) -> None:
    """Write depth, uint16 in millimetres, as a whole PNG file."""
    _, coded = cv2.imencode(".png", millimetres)
    write_whole(path, coded.tobytes())


def sweep(folder: Path) -> None:
    """Remove what an interrupted run left half written."""
    for partial in folder.rglob(f"*{PARTIAL}"):
        partial.unlink(missing_ok=True)
