# SPDX-License-Identifier: Apache-2.0
"""Bags as recordings: both storages, compression, damage, and the choice of topics."""

import shutil
import sqlite3
from contextlib import closing, suppress

import numpy as np
import pytest
from std_msgs.msg import String

from newfound_runtime.bag_recording import BagRecording
from newfound_runtime.bag_testing import (
    PERIOD,
    START,
    camera_messages,
    compressed,
    compressed_depth,
    header,
    image,
    write_db3,
    write_mcap,
)
from newfound_runtime.images import rgb_message
from newfound_runtime.recordings import (
    FrameError,
    RecordingError,
    RecordingOptions,
    open_recording,
)

GREY = np.full((24, 32, 3), 90, np.uint8)
METRES = np.full((24, 32), 1.25, np.float32)


def check(source, frames=5):
    """What `camera_messages` holds, in any storage."""
    assert isinstance(source, BagRecording)
    assert len(source) == frames
    assert source.stamped
    for n in (*range(frames), 0):  # also backwards
        assert source.rgb(n).mean() == 20 * n
        assert source.stamp(n) == START + n * PERIOD
        assert source.depth(n).dtype == np.uint16
        assert source.depth(n)[3, 4] == 1000 + n
        info = source.camera_info(n)
        assert (info.k[0], info.distortion_model, info.d[0]) == (40.0 + n, "plumb_bob", 0.1)
        assert source.frame_id(n) == "optical"
    assert source.rate == pytest.approx(10.0)
    assert source.time(2) == pytest.approx(0.2)


def test_a_bare_mcap_file_gives_images_depth_camera_and_original_stamps(tmp_path):
    source = open_recording(write_mcap(tmp_path / "a.mcap", camera_messages()))
    check(source)
    assert source.warnings == []
    source.close()


@pytest.mark.parametrize("mode", ["", "message", "file"])
def test_a_folder_with_sqlite_is_read_as_rosbag2_wrote_it(tmp_path, mode):
    source = open_recording(write_db3(tmp_path / "bag", camera_messages(), mode))
    check(source)
    assert source.warnings == []
    source.close()


def test_a_bag_in_several_files_is_one_recording(tmp_path):
    folder = tmp_path / "bag"
    folder.mkdir()
    messages = camera_messages()
    write_mcap(folder / "bag_0.mcap", messages[:8])
    write_mcap(folder / "bag_1.mcap", messages[8:])
    names = "[bag_0.mcap, bag_1.mcap]"
    (folder / "metadata.yaml").write_text(
        f"rosbag2_bagfile_information: {{relative_file_paths: {names}}}"
    )
    check(open_recording(folder))
    (folder / "metadata.yaml").unlink()
    source = open_recording(folder)
    check(source)
    assert "not ended in order" in source.warnings[0]


def test_a_cut_off_mcap_file_is_played_up_to_the_cut(tmp_path):
    path = write_mcap(tmp_path / "a.mcap", camera_messages(), compress=False)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    source = open_recording(path)
    assert 0 < len(source) < 5
    assert source.rgb(len(source) - 1).mean() == 20 * (len(source) - 1)
    assert "cut off or damaged at byte" in source.warnings[0]


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_no_cut_of_an_mcap_file_does_harm(tmp_path, share, compress):
    path = write_mcap(tmp_path / "a.mcap", camera_messages(), compress)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    if share < 0.2:  # not one image is whole
        with pytest.raises(RecordingError, match="no colour images"):
            open_recording(path)
        return
    source = open_recording(path)
    assert source.warnings
    assert source.rgb(0).shape == (24, 32, 3)


def test_a_damaged_chunk_is_left_out_and_said(tmp_path):
    path = write_mcap(tmp_path / "a.mcap", camera_messages(40), compress=False)
    content = bytearray(path.read_bytes())
    whole = len(open_recording(path))
    middle = len(content) // 3
    content[middle : middle + 8] = b"damaged!"
    path.write_bytes(content)
    source = open_recording(path)
    assert 0 < len(source) < whole
    assert any("damaged" in warning for warning in source.warnings)


def test_a_damaged_database_is_played_as_far_as_it_goes(tmp_path):
    folder = write_db3(tmp_path / "bag", camera_messages(50))
    path = folder / "bag_0.db3"
    content = bytearray(path.read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    path.write_bytes(content)
    source = open_recording(folder)
    assert 0 < len(source) < 50
    assert source.rgb(0).mean() == 0
    assert any("damaged" in warning for warning in source.warnings)


def test_what_is_no_database_is_refused(tmp_path):
    folder = write_db3(tmp_path / "bag", camera_messages(50))
    path = folder / "bag_0.db3"
    path.write_bytes(path.read_bytes()[:50_000])
    with pytest.raises(RecordingError, match=r"bag_0\.db3 is not a bag of rosbag2: .* malformed"):
        open_recording(folder)
    path.write_bytes(b"not a database, but long enough to be looked at" * 50)
    with pytest.raises(RecordingError, match="not a bag of rosbag2"):
        open_recording(folder)


@pytest.mark.parametrize("content", [b"", b"\x89MCAP0\r\n", b"nothing of this kind"])
def test_a_file_that_is_no_mcap_is_refused(tmp_path, content):
    (tmp_path / "a.mcap").write_bytes(content)
    with pytest.raises(RecordingError, match=r"not an MCAP file|no colour images"):
        open_recording(tmp_path / "a.mcap")


def test_compressed_images_are_decoded_and_their_jpeg_passed_on(tmp_path):
    packed = compressed(START, GREY)
    path = write_mcap(
        tmp_path / "a.mcap",
        [("/front/image_raw/compressed", packed, START),
         ("/front/depth/compressedDepth",
          compressed_depth(START, np.full((24, 32), 1234, np.uint16)), START)],
    )  # fmt: skip
    source = open_recording(path)
    assert abs(source.rgb(0).mean() - 90) < 2
    assert source.jpeg(0) == bytes(packed.data)
    assert source.depth(0)[0, 0] == 1234


def test_quantised_depth_in_metres_is_decoded(tmp_path):
    depth = METRES.copy()
    depth[0] = 0
    path = write_mcap(
        tmp_path / "a.mcap",
        [("/image", rgb_message(header(START), GREY), START),
         ("/depth/compressedDepth", compressed_depth(START, depth), START)],
    )  # fmt: skip
    found = open_recording(path).depth(0)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, depth, rtol=0.002)


def test_depth_in_metres_stays_in_metres(tmp_path):
    path = write_mcap(
        tmp_path / "a.mcap",
        [("/image", rgb_message(header(START), GREY), START),
         ("/depth", image(START, "32FC1", METRES), START)],
    )  # fmt: skip
    np.testing.assert_array_equal(open_recording(path).depth(0), METRES)


def test_a_bag_without_images_is_refused_with_its_topics(tmp_path):
    path = write_mcap(tmp_path / "a.mcap", [("/chatter", String(data="hello"), START)])
    with pytest.raises(RecordingError, match=r"Its topics: /chatter \(std_msgs/msg/String, 1\)"):
        open_recording(path)


def test_of_several_cameras_one_must_be_chosen(tmp_path):
    grey = rgb_message(header(START), GREY)
    path = write_mcap(
        tmp_path / "a.mcap",
        [("/left/image_raw", grey, START), ("/right/image_raw", grey, START),
         ("/right/image_raw/compressed", compressed(START, GREY), START)],
    )  # fmt: skip
    with pytest.raises(RecordingError, match=r"/left/image_raw, /right/image_raw\. Choose one"):
        open_recording(path)
    assert len(open_recording(path, RecordingOptions("/right/image_raw"))) == 1
    with pytest.raises(RecordingError, match="no images on /front"):
        open_recording(path, RecordingOptions("/front"))


def test_colour_is_preferred_to_infrared_and_aligned_depth_to_other_depth(tmp_path):
    depth = np.full((24, 32), 700, np.uint16)
    infrared = image(START, "mono8", np.zeros((24, 32), np.uint16))
    infrared.step, infrared.data = 32, bytes(24 * 32)
    path = write_mcap(
        tmp_path / "a.mcap",
        [("/infra1/image", infrared, START), ("/color/image", rgb_message(header(START), GREY),
                                              START),
         ("/depth/image", image(START, "16UC1", depth), START),
         ("/aligned_depth_to_color/image", image(START, "16UC1", depth + 1), START)],
    )  # fmt: skip
    source = open_recording(path)
    assert source.rgb(0).mean() == 90
    assert source.depth(0)[0, 0] == 701


def test_of_raw_and_compressed_topics_of_one_image_the_best_is_taken(tmp_path):
    depth = np.full((24, 32), 700, np.uint16)
    messages = [
        ("/color/image_raw/compressed", compressed(START, GREY), START),
        ("/color/image_raw", rgb_message(header(START), GREY + 1), START),
        ("/depth/image/compressedDepth", compressed_depth(START, depth), START),
        ("/depth/image/compressed", compressed_depth(START, depth + 1), START),
    ]
    source = open_recording(write_mcap(tmp_path / "a.mcap", messages))
    assert source.rgb(0).mean() == 91
    assert source.depth(0)[0, 0] == 700


def test_infrared_of_16_bits_is_not_depth(tmp_path):
    values = np.full((24, 32), 700, np.uint16)
    messages = [("/color/image", rgb_message(header(START), GREY), START),
                ("/infrared/image", image(START, "mono16", values), START)]  # fmt: skip
    assert not open_recording(write_mcap(tmp_path / "a.mcap", messages)).has_depth
    messages.append(("/depth/image", image(START, "mono16", values), START))
    assert open_recording(write_mcap(tmp_path / "b.mcap", messages)).depth(0)[0, 0] == 700


def test_an_unknown_encoding_or_a_broken_message_is_an_error_of_its_frame(tmp_path):
    strange = rgb_message(header(START), GREY)
    strange.encoding = "nv99"
    short = rgb_message(header(START + PERIOD), GREY)
    short.height = 999
    good = rgb_message(header(START + 2 * PERIOD), GREY)
    path = write_mcap(
        tmp_path / "a.mcap",
        [("/image", m, START + n) for n, m in enumerate((strange, short, good))],
    )
    source = open_recording(path)
    with pytest.raises(FrameError, match="unknown encoding 'nv99'"):
        source.rgb(0)
    with pytest.raises(FrameError, match="are needed"):
        source.rgb(1)
    assert source.rgb(2).mean() == 90


def test_a_damaged_message_is_an_error_of_its_frame(tmp_path):
    messages = camera_messages(frames=3)
    path = write_db3(tmp_path / "bag", messages) / "bag_0.db3"
    with closing(sqlite3.connect(path)) as database:
        query = "UPDATE messages SET data = substr(data, 1, 40) WHERE topic_id = ? AND id = ?"
        topics = [topic for topic, _, _ in messages]
        for number, topic in ((2, "/front/image_raw"), (5, "/front/camera_info")):
            assert topics[number - 1] == topic
            database.execute(query, (1 if topic.endswith("info") else 2, number))
        database.commit()
    source = open_recording(path)
    with pytest.raises(FrameError, match="a message of /front/image_raw is damaged"):
        source.rgb(0)
    with pytest.raises(FrameError, match="a message of /front/camera_info is damaged"):
        source.camera_info(1)
    assert source.rgb(1).mean() == 20
    assert source.camera_info(2).k[0] == 42.0


@pytest.mark.parametrize("storage", ["mcap", "db3"])
def test_random_damage_is_refused_or_costs_frames(tmp_path, storage):
    random = np.random.default_rng(5)
    if storage == "mcap":
        path = write_mcap(tmp_path / "a.mcap", camera_messages(), compress=False)
    else:
        path = write_db3(tmp_path / "bag", camera_messages()) / "bag_0.db3"
    content, outcomes = path.read_bytes(), set()
    for _ in range(60):
        damaged = np.frombuffer(content, np.uint8).copy()
        for start in random.integers(0, len(damaged), random.integers(1, 20)):
            damaged[start : start + 8] = random.integers(0, 256)
        path.write_bytes(damaged.tobytes()[: random.integers(len(damaged) // 2, 2 * len(damaged))])
        try:
            source = open_recording(path)
        except RecordingError:
            outcomes.add("refused")
            continue
        for number in range(len(source)):
            with suppress(FrameError):
                source.rgb(number), source.depth(number), source.camera_info(number)
                outcomes.add("played")
        source.close()
    assert outcomes == {"refused", "played"}


def test_a_stamp_of_zero_is_replaced_by_the_time_of_recording(tmp_path):
    path = write_mcap(tmp_path / "a.mcap", [("/image", rgb_message(header(0), GREY), START)])
    assert open_recording(path).stamp(0) == START


def test_a_missing_file_of_the_bag_is_said(tmp_path):
    folder = write_db3(tmp_path / "bag", camera_messages())
    shutil.move(folder / "bag_0.db3", folder / "bag_1.db3")
    source = open_recording(folder)
    check(source)
    assert "files of the bag are missing: bag_0.db3" in source.warnings[0]
