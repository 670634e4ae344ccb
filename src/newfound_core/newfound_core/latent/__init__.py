# SPDX-License-Identifier: Apache-2.0
"""mDA: latent domains discovered in unlabelled footage of several sites.

M. Mancini, L. Porzi, S. Rota Bulò, B. Caputo, E. Ricci, "Boosting Domain Adaptation by Discovering
Latent Domains", CVPR 2018, arXiv:1805.01386; "Inferring Latent Domains for Unsupervised Deep
Domain Adaptation", TPAMI 2019; thesis 2.4, equations 2.2 to 2.7. Per image it is known only
whether it is source (labelled) or target (not). Behind the stem every normalisation layer has
statistics of k_s source and k_t target domains (`normalization`), mixed by

    w = [softmax(f_Ds(x)), 0]  for a source image,   w = [0, softmax(f_Dt(x))]  for a target image

and the network is trained with

    L = CE(source, y) + lambda_C mean_target H(f_C(x)) + lambda_D mean_known CE(f_Ds(x), d)
      + lambda_E [mean_unknown H(f_Ds(x)) + mean_target H(f_Dt(x))]
      - lambda_B [H(mean_source f_Ds) + H(mean_target f_Dt)]

Each side has a domain branch of its own, as in the runs of the thesis with several targets; a side
with one domain has none. k_s = k_t = 1 is DIAL.

Ours, and the control without training: the target's domains are clusters of stem statistics
(`stem_clusters`), each with re-estimated statistics; `CentreBranch` assigns images to them.
"""

from newfound_core.latent.branches import UNKNOWN, CentreBranch, LatentConfig
from newfound_core.latent.classifier import (
    LatentClassifier,
    LatentOutput,
    require_classes,
    used_domains,
)
from newfound_core.latent.domains import (
    as_plain,
    clustered,
    from_source,
    re_estimate_domain,
)

__all__ = [
    "UNKNOWN",
    "CentreBranch",
    "LatentClassifier",
    "LatentConfig",
    "LatentOutput",
    "as_plain",
    "clustered",
    "from_source",
    "re_estimate_domain",
    "require_classes",
    "used_domains",
]
