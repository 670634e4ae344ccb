# SPDX-License-Identifier: Apache-2.0
"""`evaluate_online`: how well ONDA follows a stream from a domain it has not seen."""
