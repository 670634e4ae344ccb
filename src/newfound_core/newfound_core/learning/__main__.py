# SPDX-License-Identifier: Apache-2.0
"""`python -m newfound_core.learning --job <directory>`: learn one class."""

import sys

from newfound_core.learning.learn import main

sys.exit(main(sys.argv[1:]))
