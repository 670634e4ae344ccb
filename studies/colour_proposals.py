# SPDX-License-Identifier: Apache-2.0
"""Objects that proposers find from colour alone, in photographs and on real tables.

    python -m studies.colour_proposals --data DIR --out DIR [--proposers regions selective_search]

DIR holds `coco128` and `osd`. Reported are pictures that `models/regions` was never trained nor
chosen on: the second of every three of `coco128`, scenes of odd number of `osd`; and the shipped
clip of the simulated bench, whose renderer it has seen. Prints average recall (COCO's, IoU 0.5 to
0.95) and recall at IoU 0.5 of the best 10 and 20 boxes, Spearman's correlation of objectness and
IoU, and the median processor time of a frame on one core; then recall and precision of what the
detector makes of it. Writes the boxes found as figures, and
the reliability of the objectness; with `tum_xyz` in DIR, which has no labels, its desk too.

`selective_search` (Uijlings et al., IJCV 2013) needs OpenCV's contributed modules, which newfound
does not install. A proposer that is none of these names is a model: a folder, or a file with
torchvision's weights. `bench_rpn=DIR` is the region proposal network that newfound shipped until
version 0.2: `git show 100f832:models/bench_rpn/model.safetensors > DIR/model.safetensors`.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
import torch
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.rpn import RegionProposalNetwork, RPNHead
from torchvision.ops import FeaturePyramidNetwork

from newfound_core.backbones import build_backbone
from newfound_core.backbones.weights import load_strictly, read_weights
from newfound_core.detection.detector import Detector
from newfound_core.detection.proposals import Proposals
from newfound_core.detection.region_proposer import load_region_proposer, scored_proposals
from newfound_core.preprocessing import Preprocessing
from newfound_training.detector.coco import read_rgb
from newfound_training.detector.measures import (
    MIN_IOU,
    Proposed,
    match_boxes,
    measure_proposals,
    objectness_and_overlap,
)
from newfound_training.detector.sources import read_source, reported
from newfound_training.running.figures import pyplot, save_figure
from studies.bench_robot import clip_shots
from tests import ROOT
from tests.bench.detector_cost import CLIP

REPORT_EVERY = {"coco128": 3, "osd": 2}
SHOWN = {"coco128": (1, 4, 12, 16, 20, 37), "osd": (1, 8, 12, 15, 18, 21)}
DESK = "tum_xyz"  # rgb/*.jpg
SETS = ("coco128", "osd", "simulated")
Find = Callable[[np.ndarray], Proposals]
Scene = tuple[np.ndarray, np.ndarray]  # pixels and boxes


def scenes(name: str, root: Path) -> Iterator[Scene]:
    """The reported pictures of a set."""
    if name == "simulated":
        for shot in clip_shots(CLIP)[::3]:
            yield shot.rgb, shot.boxes
        return
    for picture in reported(read_source(root / name), REPORT_EVERY[name]):
        yield read_rgb(picture), picture.boxes


def selective_search(rgb: np.ndarray) -> Proposals:
    """OpenCV's, in its fast mode and in its own order, which is all the ranking there is."""
    search = cv2.ximgproc.segmentation.createSelectiveSearchSegmentation()
    search.setBaseImage(cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR))
    search.switchToSelectiveSearchFast()
    boxes = search.process()[:100].astype(np.float32)
    boxes[:, 2:] += boxes[:, :2]
    return Proposals(boxes, np.linspace(1, 0, len(boxes), dtype=np.float32))


def bench_rpn(folder: Path) -> Find:
    """The network that was shipped before: torchvision's region proposals on five stages."""
    prepare = Preprocessing(256, mean=(127.0,) * 3, std=(128.0,) * 3)
    network = torch.nn.Module()
    network.backbone = build_backbone("efficientnet_lite0", None, 5)
    network.pyramid = FeaturePyramidNetwork([40, 112], 48)
    anchors = AnchorGenerator(((36.0,), (84.0,)), ((0.5, 1.0, 2.0),) * 2)
    counts = {"training": 300, "testing": 300}
    network.proposals = RegionProposalNetwork(
        anchors, RPNHead(48, 3), 0.6, 0.3, 64, 0.5, counts, {"training": 100, "testing": 100}, 0.6
    )
    load_strictly(network, read_weights(folder / "model.safetensors"), str(folder))
    network.eval()

    @torch.inference_mode()
    def find(rgb: np.ndarray) -> Proposals:
        image = prepare(rgb)[None]
        x, maps = network.backbone.stem(image), {}
        for number, stage in enumerate(network.backbone.stages, start=1):
            x = stage(x)
            if number in (3, 5):
                maps[str(number)] = x
        listed = ImageList(image, [(256, 256)])
        boxes, scores = scored_proposals(network.proposals, listed, network.pyramid(maps))[0]
        height, width = rgb.shape[:2]
        scale = np.array([width, height] * 2, np.float32) / 256
        return Proposals(boxes.numpy() * scale, scores.numpy())

    return find


def finder(name: str) -> Find | None:
    """A proposer by its name or model; None if what it needs is not installed."""
    if name == "selective_search":
        return selective_search if hasattr(cv2, "ximgproc") else None
    if name.startswith("bench_rpn="):
        return bench_rpn(Path(name.partition("=")[2]))
    shipped = ROOT / "models" / name
    proposer = load_region_proposer(str(shipped if shipped.is_dir() else name))
    return lambda rgb: proposer.propose(rgb, None)


def run(find: Find, shown: Sequence[Scene]) -> tuple[list[Proposed], float]:
    """What is found in each picture, and the median processor time of one, ms."""
    found, spent = [], []
    for rgb, boxes in shown:
        started = time.process_time()
        proposals = find(rgb)
        spent.append(time.process_time() - started)
        found.append(Proposed(boxes, proposals.boxes, proposals.objectness))
    return found, 1e3 * statistics.median(spent)


def print_as_used(root: Path) -> None:
    """Recall and precision of the regions that the detector looks at with its defaults."""
    detector = Detector(load_region_proposer(str(ROOT / "models" / "regions")))
    for of in SETS:
        matched = regions = objects = 0
        for rgb, truth in scenes(of, root):
            boxes, _ = detector.regions(rgb, None)
            matched += int((match_boxes(boxes, truth) >= 0).sum())
            regions, objects = regions + len(boxes), objects + len(truth)
        print(f"detector, {of}: recall {matched / objects:.1%}, precision {matched / regions:.1%}")


def draw_boxes(
    shown: Sequence[Scene], found: Sequence[Proposed], least: float, path: Path
) -> None:
    """Six pictures with their objects and the best proposals, right and wrong."""
    figure, axes = pyplot.subplots(2, 3, figsize=(9, 5.4), layout="constrained")
    for axis, (rgb, truth), proposed in zip(axes.flat, shown, found, strict=True):
        axis.imshow(rgb)
        axis.set_axis_off()
        for box in truth:
            _rectangle(axis, box, "white", 2.5, "-")
        overlap = objectness_and_overlap([proposed], 10)[:, 1]
        for box, sure, best in zip(proposed.boxes, proposed.objectness, overlap, strict=False):
            if sure < least:
                continue
            hit = best >= MIN_IOU
            _rectangle(axis, box, "#2a9d5c" if hit else "#c8443f", 1.5, "-" if hit else ":")
            axis.text(*box[:2], f"{sure:.2f}", fontsize=7, color="white", va="top",
                      bbox={"facecolor": "black", "alpha": 0.6, "pad": 0.5, "lw": 0})  # fmt: skip
    figure.supxlabel(
        "labelled objects white; of the best 10 proposals those above min_objectness, green where "
        "they cover one at IoU 0.5, else dotted red",
        fontsize=8,
    )
    save_figure(figure, path)


def draw_desk(find: Find, folder: Path, path: Path) -> None:
    """Three frames of a desk without labels, with the ten best proposals of each."""
    files = sorted((folder / "rgb").glob("*.jpg"))
    figure, axes = pyplot.subplots(1, 3, figsize=(9, 2.6), layout="constrained")
    for axis, place in zip(axes, (0.0, 0.5, 1.0), strict=True):
        file = files[round(place * (len(files) - 1))]
        rgb = cv2.cvtColor(cv2.imread(str(file)), cv2.COLOR_BGR2RGB)
        axis.imshow(rgb)
        axis.set_axis_off()
        for box in find(rgb).boxes[:10]:
            _rectangle(axis, box, "#e9a13b", 1.5, "-")
    save_figure(figure, path)


def _rectangle(axis, box: np.ndarray, colour: str, width: float, style: str) -> None:
    size = box[2:] - box[:2]
    axis.add_patch(pyplot.Rectangle(box[:2], *size, fill=False, ec=colour, lw=width, ls=style))


def draw_reliability(found: dict[str, list[Proposed]], path: Path) -> None:
    """Mean IoU of the proposals of one objectness, for each set."""
    figure, axis = pyplot.subplots(figsize=(4.6, 4.2), layout="constrained")
    axis.plot([0, 1], [0, 1], color="#999999", lw=1)
    for name, pictures in found.items():
        sure, overlap = objectness_and_overlap(pictures).T
        bins = np.digitize(sure, np.arange(0.1, 1.0, 0.1))
        used = [b for b in range(10) if (bins == b).sum() >= 10]
        axis.plot(
            [sure[bins == b].mean() for b in used],
            [overlap[bins == b].mean() for b in used],
            marker="o",
            label=name,
        )
    axis.set_xlabel("objectness")
    axis.set_ylabel("mean IoU with the nearest object")
    axis.legend(fontsize=8)
    save_figure(figure, path)


def main() -> None:
    """Print the table, draw the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--proposers", nargs="+", default=["selective_search", "regions"])
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    print("| proposer | pictures | objects | AR@10 | AR@20 | recall@10 | recall@20 | corr. | ms |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in chosen.proposers:
        find = finder(name)
        if find is None:
            print(f"| {name} | not measured: OpenCV has no contributed modules here |")
            continue
        everything = {}
        for of in SETS:
            shown = list(scenes(of, chosen.data))
            everything[of], spent = run(find, shown)
            values = measure_proposals(everything[of])
            numbers = [f"{values[k]:.1%}" for k in ("ar_10", "ar_20", "recall_10", "recall_20")]
            objects = sum(len(p.truth) for p in everything[of])
            columns = [name.partition("=")[0], f"{of}, {len(shown)}", str(objects), *numbers]
            print("|", " | ".join(columns), f"| {values['correlation']:.2f} | {spent:.0f} |")
            if name == "regions" and of in SHOWN:
                few = SHOWN[of]
                least = load_region_proposer(str(ROOT / "models" / name)).min_objectness
                draw_boxes([shown[i] for i in few], [everything[of][i] for i in few], least,
                           chosen.out / f"regions_{of}.png")  # fmt: skip
        if name == "regions":
            draw_reliability(everything, chosen.out / "regions_reliability.png")
            if (chosen.data / DESK).is_dir():
                draw_desk(find, chosen.data / DESK, chosen.out / "regions_desk.png")
            print_as_used(chosen.data)


if __name__ == "__main__":
    main()
