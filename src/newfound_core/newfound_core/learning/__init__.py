# SPDX-License-Identifier: Apache-2.0
"""Learning one class on the robot: a job directory and a process of its own.

    python -m newfound_core.learning --job <directory>

`job` is the directory that the detector and the learning process share, `learn` the process,
`class_learning` what it does, `validation` the check that decides whether the result is used.
"""
