# SPDX-License-Identifier: Apache-2.0
import numpy as np
import torch
from torch import nn

from newfound_training.predictive.affine import GraphNetwork, NodeAffine


def softmax(z):
    p = np.exp(z - z.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


def test_a_layer_takes_the_batch_statistics_and_scale_and_bias_through_the_edges():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3))
    network = network.double().eval()
    edges = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
    generator = np.random.default_rng(1)
    scale, bias = generator.normal(size=(2, 3, 5))
    affine = NodeAffine([torch.ones(5).double(), torch.zeros(5).double()],
                        torch.from_numpy(edges))  # fmt: skip
    affine.load_state_dict({"scale": torch.from_numpy(scale), "bias": torch.from_numpy(bias)})
    x = generator.normal(size=(8, 4))
    labels = np.arange(8) % 3

    def loss(scale, bias):
        """Of node 1, in NumPy."""
        first, last = ((m.weight.detach().numpy(), m.bias.detach().numpy())
                       for m in (network[0], network[3]))  # fmt: skip
        h = x @ first[0].T + first[1]
        h = (h - h.mean(0)) / np.sqrt(h.var(0) + 1e-5)
        z = np.tanh(edges[1] @ scale * h + edges[1] @ bias) @ last[0].T + last[1]
        return z, -np.log(softmax(z)[np.arange(8), labels]).mean()

    logits = GraphNetwork(network, "all").logits(torch.from_numpy(x), *affine.of(1))
    np.testing.assert_allclose(logits.detach().numpy(), loss(scale, bias)[0], atol=1e-12)
    error = nn.functional.cross_entropy(logits, torch.from_numpy(labels))
    gradients = torch.autograd.grad(error, [affine.scale, affine.bias])
    for name, values, found in zip(("scale", "bias"), (scale, bias), gradients, strict=True):
        numeric = np.zeros_like(values)
        for place in np.ndindex(values.shape):
            step = np.zeros_like(values)
            step[place] = 1e-6
            pair = [{"scale": scale, "bias": bias} | {name: values + s} for s in (step, -step)]
            numeric[place] = (loss(**pair[0])[1] - loss(**pair[1])[1]) / 2e-6
        np.testing.assert_allclose(found.numpy(), numeric, atol=1e-8)
    assert network[1].running_mean.eq(0).all()  # the serving network is as it was
