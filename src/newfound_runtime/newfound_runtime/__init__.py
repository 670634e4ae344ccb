# SPDX-License-Identifier: Apache-2.0
"""What every newfound node shares: lifecycle, parameters, image input, diagnostics.

Imports nothing heavy, so that an executable can handle Ctrl-C from its first moment.
"""

import os

# Read when torch loads OpenMP. By default its threads spin for a millisecond at every barrier: one
# process alone is faster by a third then, but two of them on two cores take turns spinning and
# come to a frame a second. Set it yourself where one process has the machine.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
