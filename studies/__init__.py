# SPDX-License-Identifier: Apache-2.0
"""Programs that make the figures and tables of docs/: `python -m studies.<name> --help`.

None of them is run by `make test`; those that kill and soak for long are run by `make soak`.
"""
