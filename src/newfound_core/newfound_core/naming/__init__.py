# SPDX-License-Identifier: Apache-2.0
"""Names for what was never trained on, from vectors of words.

M. Mancini, Z. Akata, E. Ricci, B. Caputo, "Towards Recognizing Unseen Categories in Unseen
Domains" (CuMix), ECCV 2020, arXiv:2007.12256; thesis chapter 6. Class names are fixed vectors of
words (`embeddings`), an image is mapped among them (`model`), and training mixes images and
features within and across domains (`mixing`, `losses`).
"""

from newfound_core.naming.embeddings import (
    NameEncoder,
    NameVectors,
    center,
    plain_name,
    read_aliases,
    read_names,
    span_shares,
    split_name,
)
from newfound_core.naming.losses import LossTerms, MixingConfig, cumix_loss
from newfound_core.naming.mixing import Mixture, curriculum, draw_mixture
from newfound_core.naming.model import (
    NameAnswer,
    NamingConfig,
    NamingModel,
    Vocabulary,
    ridge_projection,
)
from newfound_core.naming.word_files import WordVectors, read_word_vectors, write_word_vectors

__all__ = [
    "LossTerms",
    "MixingConfig",
    "Mixture",
    "NameAnswer",
    "NameEncoder",
    "NameVectors",
    "NamingConfig",
    "NamingModel",
    "Vocabulary",
    "WordVectors",
    "center",
    "cumix_loss",
    "curriculum",
    "draw_mixture",
    "plain_name",
    "read_aliases",
    "read_names",
    "read_word_vectors",
    "ridge_projection",
    "span_shares",
    "split_name",
    "write_word_vectors",
]
