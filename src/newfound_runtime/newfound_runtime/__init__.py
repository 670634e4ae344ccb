# SPDX-License-Identifier: Apache-2.0
"""What every newfound node shares: lifecycle, parameters, image input, diagnostics.

Imports nothing heavy, so that an executable can handle Ctrl-C from its first moment.
"""

import os

# Read when torch loads OpenMP, whose threads spin at every barrier by default. One process alone
# is somewhat faster then, but two of them on two cores take turns spinning and come to a frame a
# second; on some virtual machines a thousand rounds are enough for that. So they sleep at once.
# Set it yourself where one process has the machine.
os.environ.setdefault("GOMP_SPINCOUNT", "0")
