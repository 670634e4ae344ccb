# SPDX-License-Identifier: Apache-2.0
"""Labelled crops of COCO's things, cut out as the detector does, to fit the confidence of names.

    python -m studies.coco_crops --data coco128 --out DIR

`--data` holds `images/` and `instances.json` whose categories are numbered as COCO's eighty
classes. Writes `DIR/cut/crops/<class>/` (`--data DIR/cut` of make-names); people are left out, and
what is smaller than 32 pixels. Names are spelled as the household list does (`sports ball`: ball).
"""

import argparse
import json
import sys
from pathlib import Path

from newfound_training.commands import main as training

NAMES = (
    *("person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat"),
    *("traffic light", "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat"),
    *("dog", "horse", "sheep", "cow", "elephant", "bear", "zebra", "giraffe", "backpack"),
    *("umbrella", "handbag", "tie", "suitcase", "frisbee", "ski", "snowboard", "ball", "kite"),
    *("baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "bottle"),
    *("wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple", "sandwich"),
    *("orange", "broccoli", "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch"),
    *("houseplant", "bed", "dining table", "toilet", "television", "laptop", "computer mouse"),
    *("remote control", "keyboard", "smartphone", "microwave", "oven", "toaster", "sink"),
    *("refrigerator", "book", "clock", "vase", "scissors", "teddy bear", "hair dryer"),
    "toothbrush",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    document = json.loads((arguments.data / "instances.json").read_text(encoding="utf-8"))
    document["categories"] = [{"id": number, "name": name} for number, name in enumerate(NAMES)]
    arguments.out.mkdir(parents=True, exist_ok=True)
    named = arguments.out / "named.json"
    named.write_text(json.dumps(document), encoding="utf-8")
    options = {
        "--data": arguments.data,
        "--annotations": named.resolve(),
        "--images": "images",
        "--out": arguments.out / "cut",
        "--split": "crops",
        "--jitter": 0,
        "--least-side": 32,
        "--size": 224,
    }
    given = [str(part) for pair in options.items() for part in pair]
    return training(["cut-crops", *given, "--classes", *NAMES[1:]])


if __name__ == "__main__":
    sys.exit(main())
