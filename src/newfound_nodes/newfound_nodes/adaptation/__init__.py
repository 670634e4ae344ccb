# SPDX-License-Identifier: Apache-2.0
"""ONDA beside a stream of frames.

`updates` runs predictions in the worker and updates in a thread, `state` keeps the adapted
statistics on disk, `interface` has the parameters, services and messages.
"""
