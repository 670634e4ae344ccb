# SPDX-License-Identifier: Apache-2.0
"""The clip `light_change` of newfound_sim: `python -m tests.light_clip --help`.

Pictures of single objects, first in one light, then in another, in random order and each once,
from a folder of `python -m newfound_sim generate workbench`.
"""

import argparse
import tempfile
from pathlib import Path

from PIL import Image

from newfound_core.models import load_model
from newfound_sim.truth import Truth
from tests import ROOT
from tests.light_change import lit, pictures
from tests.playing import make_clip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--before", default="artificial_kinect_white", help="domain")
    parser.add_argument("--after", default="cloudy_kinect_white", help="domain")
    parser.add_argument("--frames", type=int, nargs=2, default=[72, 216], help="in either light")
    parser.add_argument("--quality", type=int, default=80, help="of the JPEG files")
    arguments = parser.parse_args()
    labels = load_model(ROOT / "models/workbench").labels
    with tempfile.TemporaryDirectory() as folder:
        shown: list[tuple[Path, Truth]] = []
        for domain, count in zip(
            (arguments.before, arguments.after), arguments.frames, strict=True
        ):
            part = lit(pictures(arguments.data / domain, labels, 0)[:count], domain)
            for path, truth in part:
                small = Path(folder) / f"{len(shown):05d}.jpg"
                Image.open(path).save(small, quality=arguments.quality, optimize=True)
                shown.append((small, truth))
        make_clip(arguments.out, shown)
    print(f"{len(shown)} frames in {arguments.out}")


if __name__ == "__main__":
    main()
