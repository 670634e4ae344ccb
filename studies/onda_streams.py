# SPDX-License-Identifier: Apache-2.0
"""Accuracy of ONDA on a stream sorted by class and on the same stream shuffled.

    python -m studies.onda_streams --data DIR --out DIR

DIR of the data holds PACS as `<domain>/<class>/*.jpg`. The source is EfficientNet-Lite0 trained
briefly on `photo`, and kept in the output folder for the next run. `result.json` has, per
target, order and method, `accuracy` (0 to 1), `updates` and `drift` (mean symmetric KL).
"""

import argparse
import json
import os
import random
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch.nn import functional

from newfound_core.backbones import build_backbone
from newfound_core.onda import Onda, OndaConfig
from newfound_core.places import BnClassifier, parameter_groups

METHODS = {
    "source only": None,
    "batch": OndaConfig(estimator="batch"),
    "streaming": OndaConfig(estimator="streaming"),
    "streaming, all positions": OndaConfig(estimator="streaming", positions_per_frame=1_000_000),
    "batch, balanced": OndaConfig(estimator="batch", balanced=True),
    "streaming, balanced": OndaConfig(estimator="streaming", balanced=True),
    "streaming, balanced, anchor": OndaConfig(estimator="streaming", balanced=True, anchor=True),
}


def read_images(folder, size):
    """All images of a domain as one tensor, with their labels; (x - 127) / 128 as trained."""
    images, labels = [], []
    for label, category in enumerate(sorted(p for p in folder.iterdir() if p.is_dir())):
        for path in sorted(category.glob("*.jpg")):
            picture = Image.open(path).convert("RGB").resize((size, size))
            images.append(torch.from_numpy(np.array(picture)).permute(2, 0, 1))
            labels.append(label)
    return torch.stack(images), torch.tensor(labels)


def normalized(images):
    return (images.float() - 127) / 128


def train_source(images, labels, classes, epochs):
    """A linear head on frozen features first, then a light tuning of everything."""
    model = BnClassifier(build_backbone(weights="imagenet"), classes)
    fit_head(model, images, labels)
    optimizer = torch.optim.SGD(parameter_groups(model), momentum=0.9, weight_decay=5e-4)
    model.train()
    for epoch in range(epochs):
        for chosen in torch.randperm(len(images)).split(32):
            if len(chosen) < 2:
                continue
            optimizer.zero_grad()
            batch = normalized(images[chosen])
            batch = torch.where(torch.rand(len(batch), 1, 1, 1) < 0.5, batch.flip(3), batch)
            loss = functional.cross_entropy(model(batch).logits, labels[chosen])
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: last loss {loss.item():.3f}", flush=True)
    return model.eval()


def fit_head(model, images, labels):
    with torch.no_grad():
        model.eval()
        features = torch.cat([model.backbone(normalized(b)) for b in images.split(32)])
    optimizer = torch.optim.Adam(model.classifier.parameters(), 1e-3)
    for _ in range(30):
        for chosen in torch.randperm(len(features)).split(64):
            optimizer.zero_grad()
            logits = model.classifier(features[chosen])
            functional.cross_entropy(logits, labels[chosen]).backward()
            optimizer.step()


def source_model(args, classes):
    model = BnClassifier(build_backbone(), classes)
    cached = args.out / f"source_{args.size}px_{args.epochs}.safetensors"
    if not cached.exists():
        images, labels = read_images(args.data / "photo", args.size)
        save_file(train_source(images, labels, classes, args.epochs).state_dict(), cached)
    model.load_state_dict(load_file(cached))
    return model.eval()


def run(model, config, images, labels):
    """Predict every frame in turn, adapting if a config is given."""
    onda = Onda(model, config or OndaConfig(estimator="streaming"))
    if config is None:
        onda.freeze()
    right = 0
    start = time.perf_counter()
    for image, label in zip(images, labels, strict=True):
        right += int(onda.predict(normalized(image)).argmax()) == int(label)
    result = {
        "accuracy": right / len(labels),
        "updates": onda.status().updates,
        "resets": onda.status().resets,
        "drift": onda.drift().mean,
        "seconds": round(time.perf_counter() - start, 1),
    }
    onda.close()
    return result


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("NEWFOUND_DATA"))
    parser.add_argument("--out", type=Path, default=Path("bench"))
    parser.add_argument("--targets", nargs="+", default=["cartoon"])
    parser.add_argument("--orders", nargs="+", default=["sorted", "shuffled"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--frames", type=int, default=1000)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.data is None:
        parser.error("name the folder of PACS with --data or NEWFOUND_DATA")
    args.data = (
        Path(args.data) if (Path(args.data) / "photo").is_dir() else Path(args.data) / "pacs128"
    )
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(args.seed)
    classes = len([p for p in (args.data / "photo").iterdir() if p.is_dir()])
    results = {}
    for target in args.targets:
        images, labels = read_images(args.data / target, args.size)
        chosen = random.Random(args.seed).sample(range(len(images)), args.frames)
        for order in args.orders:
            indices = chosen
            if order == "sorted":
                indices = sorted(chosen, key=lambda i: int(labels[i]))
            for name in args.methods:
                config = METHODS[name]
                model = source_model(args, classes)
                result = run(model, config, images[indices], labels[indices])
                results[f"{target} / {order} / {name}"] = result
                print(f"{target:12} {order:9} {name:28} {result}", flush=True)
                text = json.dumps({"seed": args.seed, "results": results}, indent=2)
                (args.out / "result.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
