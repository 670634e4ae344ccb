# SPDX-License-Identifier: Apache-2.0
"""The reference is what the nodes say of themselves."""

from scripts import reference


def test_the_page_is_what_the_code_says():
    hint = "the code has moved on: run `make reference`"
    assert reference.PAGE.read_text() == reference.page(), hint
