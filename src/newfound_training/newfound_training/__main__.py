# SPDX-License-Identifier: Apache-2.0
"""`python -m newfound_training <command>`: every command by its name with dashes."""

import sys

from newfound_training.commands import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
