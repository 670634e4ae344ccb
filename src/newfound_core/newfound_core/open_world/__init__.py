# SPDX-License-Identifier: Apache-2.0
"""Open-world recognition: name what is known, say so when it is not, learn it, keep the rest.

`heads` holds the methods behind one contract, `model` ties one to a network, `learner` adds
classes, `memory` keeps what remains of old data, `metrics` measures all of it.
"""
