# SPDX-License-Identifier: Apache-2.0
"""Vectors of names from a sentence encoder.

    python -m studies.encode_names --encoder DIR --out DIR

`--encoder` is a folder of all-MiniLM-L6-v2 (Apache-2.0) with `model.safetensors` and `vocab.txt`.
Each name becomes the mean of the last layer over "a photo of a <name>", of length one. Writes
`words.safetensors` and `words.txt` for `make-names --words`: the names of `--names` (default: the
household and workshop names), those of ImageNet, and every single word of them.
"""

import argparse
import math
import re
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from newfound_core.naming import plain_name, read_names, write_word_vectors
from newfound_training.naming.imagenet import class_names, object_names
from newfound_training.naming.make import HOUSEHOLD

HEADS, LAYERS = 12, 6


class SentenceEncoder:
    """MiniLM (a BERT of six layers), for one sentence at a time."""

    def __init__(self, folder: Path) -> None:
        self._tensors = load_file(folder / "model.safetensors")
        lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
        self._pieces = {piece: number for number, piece in enumerate(lines)}

    @torch.no_grad()
    def __call__(self, sentence: str) -> Tensor:
        tokens = torch.tensor(self._tokens(sentence))
        t, count = self._tensors, len(tokens)
        x = t["embeddings.word_embeddings.weight"][tokens]
        x = x + t["embeddings.position_embeddings.weight"][:count]
        x = self._norm(x + t["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(LAYERS):
            x = self._layer(x, f"encoder.layer.{layer}.")
        return functional.normalize(x.mean(dim=0), dim=0)

    def _layer(self, x: Tensor, name: str) -> Tensor:
        count, size = x.shape[0], x.shape[1] // HEADS
        query, key, value = (
            self._linear(x, f"{name}attention.self.{part}")
            .view(count, HEADS, size)
            .transpose(0, 1)
            for part in ("query", "key", "value")
        )
        weights = (query @ key.transpose(1, 2) / math.sqrt(size)).softmax(dim=-1)
        attended = (weights @ value).transpose(0, 1).reshape(count, -1)
        x = x + self._linear(attended, f"{name}attention.output.dense")
        x = self._norm(x, f"{name}attention.output.LayerNorm")
        inner = functional.gelu(self._linear(x, f"{name}intermediate.dense"))
        return self._norm(
            x + self._linear(inner, f"{name}output.dense"), f"{name}output.LayerNorm"
        )

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return functional.linear(x, self._tensors[f"{name}.weight"], self._tensors[f"{name}.bias"])

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weight, bias = self._tensors[f"{name}.weight"], self._tensors[f"{name}.bias"]
        return functional.layer_norm(x, (x.shape[-1],), weight, bias, 1e-12)

    def _tokens(self, sentence: str) -> list[int]:
        """WordPiece: the longest piece first."""
        found = [self._pieces["[CLS]"]]
        for word in re.findall(r"[a-z0-9]+|[^\sa-z0-9]", sentence.lower()):
            at = 0
            while at < len(word):
                prefix = "##" if at else ""
                ends = (e for e in range(len(word), at, -1) if prefix + word[at:e] in self._pieces)
                end = next(ends, len(word))
                found.append(self._pieces.get(prefix + word[at:end], self._pieces["[UNK]"]))
                at = end
        return [*found, self._pieces["[SEP]"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--names", type=Path, nargs="*", default=[HOUSEHOLD])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    names = [plain_name(n) for file in arguments.names for n in read_names(file)]
    names += [*class_names(), *object_names()]
    names += [word for name in names for word in name.split()]
    names = list(dict.fromkeys(plain_name(name) for name in names))
    encoder = SentenceEncoder(arguments.encoder)
    vectors = torch.stack([encoder(f"a photo of a {name}") for name in names])
    # A phrase is looked up with _ between its words.
    write_word_vectors(arguments.out, [n.replace(" ", "_") for n in names], vectors.numpy())
    print(f"{len(names)} names in {arguments.out}")


if __name__ == "__main__":
    main()
