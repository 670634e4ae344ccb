# SPDX-License-Identifier: Apache-2.0
from newfound_nodes.model_node import one_line


def test_an_error_of_several_lines_becomes_one():
    assert one_line(ValueError("first\n  second")) == "first second"
