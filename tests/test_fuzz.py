# SPDX-License-Identifier: Apache-2.0
"""A real node, fed over DDS with whatever hypothesis thinks of."""

import array

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from newfound_runtime.testing import ACTIVE, Echo, Harness, eventually

SIZES = st.one_of(st.integers(0, 32), st.sampled_from([2**16, 2**31, 2**32 - 1]))
STAMPS = st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**32 - 1))
TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=12)
ENCODINGS = st.sampled_from(["rgb8", "bgra8", "mono16", "yuv422", "bayer_rggb8"]) | TEXTS


@pytest.fixture(scope="module")
def eyes():
    """Two nodes, one per transport, with their cameras."""
    harness = Harness()
    pairs = {}
    for transport, kind in (("raw", Image), ("compressed", CompressedImage)):
        topic = "/cam/compressed" if transport == "compressed" else "/cam"
        camera = harness.publisher(kind, topic)
        harness.collect(Header, f"/{transport}/echo")
        node = harness.started(Echo, transport, image_topic="/cam", image_transport=transport)
        harness.connected(camera)
        eventually(lambda node=node: node._input.reliability() == "reliable")
        pairs[transport] = camera, node
    yield pairs
    harness.close()


def survives(camera, node, message) -> None:
    counters = node._input.counters
    before = counters.processed + counters.failed
    camera.publish(message)
    eventually(lambda: counters.processed + counters.failed == before + 1, str(message)[:200])
    assert node.state() == ACTIVE


common = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@common
@given(width=SIZES, height=SIZES, step=SIZES, encoding=ENCODINGS, stamp=STAMPS,
       data=st.binary(max_size=2000))  # fmt: skip
def test_no_raw_image_harms_the_node(eyes, width, height, step, encoding, stamp, data):
    message = Image(width=width, height=height, step=step, encoding=encoding)
    message.header.stamp.sec, message.header.stamp.nanosec = stamp
    message.data = array.array("B", data)
    survives(*eyes["raw"], message)


@common
@given(
    prefix=st.sampled_from([b"", b"\xff\xd8\xff\xe0", b"\x89PNG\r\n\x1a\n", b"GIF89a"]),
    data=st.binary(max_size=2000),
    name=st.sampled_from(["jpeg", "png", "", "rgb8; compressedDepth png"]),
)
def test_no_compressed_image_harms_the_node(eyes, prefix, data, name):
    message = CompressedImage(format=name, data=array.array("B", prefix + data))
    survives(*eyes["compressed"], message)
