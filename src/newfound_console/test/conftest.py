# SPDX-License-Identifier: Apache-2.0
from newfound_runtime.testing import ros as ros  # a fixture
