# SPDX-License-Identifier: Apache-2.0
"""ONDA: online adaptation of a network's normalisation statistics to the stream it sees.

onda = Onda(network.eval(), OndaConfig())
logits = onda.predict(frame)          # adapts while it predicts
"""

from newfound_core.onda.adapter import Onda, OndaStatus
from newfound_core.onda.config import OndaConfig
from newfound_core.onda.estimators import PendingUpdate, ReadyUpdate
from newfound_core.onda.statistics import Drift

__all__ = ["Drift", "Onda", "OndaConfig", "OndaStatus", "PendingUpdate", "ReadyUpdate"]
