# SPDX-License-Identifier: Apache-2.0
"""The camera over real DDS, on clips that need no rendering."""

import threading

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from std_srvs.srv import SetBool, Trigger

from newfound_msgs.msg import GroundTruth
from newfound_runtime import images
from newfound_runtime.container import node_class
from newfound_runtime.testing import ACTIVE, INACTIVE, UNCONFIGURED, eventually, values
from newfound_sim.sim_camera import SimCamera


def brightness(message: Image) -> int:
    return round(float(images.to_rgb(message).mean()))


def stamps(received: list) -> list[tuple[int, int]]:
    return [(m.header.stamp.sec, m.header.stamp.nanosec) for m in received]


def camera_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.endswith("-frames")]


def test_every_topic_brings_the_same_frame_with_the_same_stamp(ros, make_clip):
    topics = {
        "image_raw": Image, "image_raw/compressed": CompressedImage, "depth": Image,
        "camera_info": CameraInfo, "ground_truth": GroundTruth,
    }  # fmt: skip
    got = {topic: ros.collect(kind, f"/{topic}") for topic, kind in topics.items()}
    ros.started(SimCamera, source=str(make_clip()), rate=20.0)
    eventually(lambda: all(len(received) >= 8 for received in got.values()))
    common = set.intersection(*(set(stamps(received)) for received in got.values()))
    assert len(common) >= 3
    for stamp in sorted(common)[:3]:
        of = {t: r[stamps(r).index(stamp)] for t, r in got.items()}
        truth = of["ground_truth"]
        raw, packed = images.to_rgb(of["image_raw"]), images.decode(of["image_raw/compressed"])
        assert abs(brightness(of["image_raw"]) - 20 * truth.frame) <= 1
        np.testing.assert_array_equal(raw, packed)
        assert raw.shape == (48, 64, 3)
        metres = images.to_depth(of["depth"])
        assert metres[0, 0] == pytest.approx(0.5 + 0.001 * (truth.frame // 2))
        assert (of["camera_info"].width, of["camera_info"].height) == (64, 48)
        assert of["camera_info"].k[0] == 50.0
        assert len({m.header.frame_id for m in of.values()}) == 1


def test_ground_truth_is_that_of_the_clip(ros, make_clip):
    received = ros.collect(GroundTruth, "/ground_truth")
    ros.started(SimCamera, source=str(make_clip()), rate=50.0)
    eventually(lambda: {t.frame for t in received} == set(range(6)))
    for truth in received:
        assert truth.annotated
        assert truth.objects[0].label == "mug"
        assert truth.objects[0].region.x_offset == truth.frame
        assert truth.domain == "cloudy_webcam_white"
        assert truth.illumination_share == 0.25
        assert truth.scenario_time == pytest.approx(truth.frame / 30, abs=1e-6)


def test_a_loop_counts_and_has_no_last_frame(ros, make_clip):
    received = ros.collect(GroundTruth, "/ground_truth")
    ros.started(SimCamera, source=str(make_clip(frames=3)), rate=50.0)
    eventually(lambda: received and received[-1].loop >= 3)
    order = [(t.loop, t.frame) for t in received]
    assert order == sorted(order)
    assert not any(t.last for t in received)


def test_without_a_loop_the_last_frame_says_so_and_the_node_stays(ros, make_clip):
    received = ros.collect(GroundTruth, "/ground_truth")
    status = ros.diagnostics("/sim_camera")
    camera = ros.started(
        SimCamera, source=str(make_clip(frames=3)), rate=20.0, loop=False, start_paused=True
    )
    eventually(lambda: camera.wanted("ground_truth"))
    assert ros.call(Trigger, "/sim_camera/restart", Trigger.Request()).success
    eventually(lambda: received and received[-1].last)
    assert [(t.frame, t.last) for t in received] == [(0, False), (1, False), (2, True)]
    eventually(lambda: status() and "has ended" in status().message)
    assert status().level == DiagnosticStatus.OK
    assert camera.state() == ACTIVE
    ros.call(Trigger, "/sim_camera/restart", Trigger.Request())
    eventually(lambda: len(received) == 6)


def test_a_paused_camera_sends_nothing_and_goes_on_where_it_was(ros, make_clip):
    received = ros.collect(GroundTruth, "/ground_truth")
    camera = ros.started(SimCamera, source=str(make_clip()), rate=100.0)
    eventually(lambda: len(received) > 3)
    assert ros.call(SetBool, "/sim_camera/pause", SetBool.Request(data=True)).success
    camera._timer.join(10)
    camera.activated()
    eventually(lambda: received[-1].frame == (camera._player.position - 1) % 6)
    count, position = len(received), camera._player.position
    assert not threading.Event().wait(0.1)
    assert (len(received), camera._player.position) == (count, position)
    ros.call(SetBool, "/sim_camera/pause", SetBool.Request(data=False))
    eventually(lambda: len(received) > count)
    assert received[count].frame == position % 6


def test_nothing_is_decoded_without_subscribers(ros, make_clip, monkeypatch):
    camera = ros.started(SimCamera, source=str(make_clip()), rate=100.0)
    decoded: list[int] = []
    picture = camera._player.picture
    monkeypatch.setattr(camera._player, "picture", lambda n: (decoded.append(n), picture(n))[1])
    eventually(lambda: camera._player.loops > 2, "time goes on")
    assert decoded == []
    truths = ros.collect(GroundTruth, "/ground_truth")
    eventually(lambda: len(truths) > 3)
    assert decoded == [], "the truth needs no picture"
    ros.collect(Image, "/image_raw")
    eventually(lambda: decoded)


def test_a_damaged_frame_is_skipped_and_counted(ros, make_clip, capfd):
    folder = make_clip()
    (folder / "images/2.jpg").write_bytes(b"\xff\xd8 no more")
    received = ros.collect(Image, "/image_raw")
    packed = ros.collect(CompressedImage, "/image_raw/compressed")
    status = ros.diagnostics("/sim_camera")
    camera = ros.started(SimCamera, source=str(folder), rate=50.0)
    eventually(lambda: camera._player.loops >= 3 and len(received) > 6 and packed)
    assert {brightness(m) for m in received} == {0, 20, 60, 80, 100}
    eventually(lambda: status() and int(values(status()).get("damaged", 0)) >= 2)
    assert "damaged frames skipped" in status().message
    assert 1 <= capfd.readouterr().err.count("frame 2 skipped") <= 2, "throttled"


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda f: (f / "clip.json").write_text("{"), "is damaged"),
        (lambda f: (f / "clip.json").unlink(), "is not a clip"),
        (lambda f: (f / "images/0.jpg").write_bytes(b""), "is not an image"),
        (lambda f: (f / "images/4.jpg").unlink(), "1 of 9 files are missing"),
    ],
)
def test_a_bad_source_keeps_the_node_unconfigured_with_one_clear_line(
    ros, make_clip, capfd, damage, told
):
    folder = make_clip()
    damage(folder)
    ros.add(SimCamera, autostart=False, source=str(folder))
    assert not ros.change("/sim_camera", "configure")
    assert ros.state("/sim_camera") == UNCONFIGURED
    text = capfd.readouterr().err
    assert "Traceback" not in text
    (line,) = [line for line in text.splitlines() if "not configured" in line]
    assert told in line


def test_a_source_that_is_set_right_can_be_configured(ros, make_clip):
    ros.add(SimCamera, autostart=False, source="/nowhere")
    assert not ros.change("/sim_camera", "configure")
    assert ros.set("/sim_camera", source=str(make_clip())).successful
    assert ros.change("/sim_camera", "configure")
    assert ros.state("/sim_camera") == INACTIVE
    assert not ros.set("/sim_camera", source="elsewhere").successful


def test_it_can_go_round_its_lifecycle_many_times(ros, make_clip):
    received = ros.collect(GroundTruth, "/ground_truth")
    ros.started(SimCamera, source=str(make_clip()), rate=50.0)
    for _ in range(3):
        count = len(received)
        eventually(lambda count=count: len(received) > count + 3)
        assert camera_threads() == ["sim_camera-frames"]
        for transition in ("deactivate", "cleanup", "configure", "activate"):
            assert ros.change("/sim_camera", transition)
    assert ros.change("/sim_camera", "shutdown")
    assert camera_threads() == []


def test_the_rate_can_change_while_it_plays(ros, make_clip):
    received = ros.collect(GroundTruth, "/ground_truth")
    camera = ros.started(SimCamera, source=str(make_clip()))
    assert camera._timer.rate == 30.0, "as recorded"
    assert ros.set("/sim_camera", rate=120.0).successful
    assert camera._timer.rate == 120.0
    assert not ros.set("/sim_camera", rate=-1.0).successful
    eventually(lambda: len(received) > 5)


def test_images_of_a_folder_have_a_camera_and_no_truth(ros, make_clip):
    truths, infos = (
        ros.collect(GroundTruth, "/ground_truth"),
        ros.collect(CameraInfo, "/camera_info"),
    )
    ros.started(SimCamera, source=str(make_clip() / "images"), fov_degrees=90.0)
    eventually(lambda: truths and infos)
    assert not truths[0].annotated
    assert infos[0].k[0] == pytest.approx(32.0), "half of 64 pixels at 45 degrees"


def test_outputs_can_be_left_out_and_best_effort(ros, make_clip):
    camera = ros.started(
        SimCamera, source=str(make_clip()), publish_depth=False, publish_compressed=False,
        reliability="best_effort",
    )  # fmt: skip
    assert set(camera._outputs) == {"image_raw", "camera_info", "ground_truth"}
    received = ros.collect(Image, "/image_raw", reliable=False)
    eventually(lambda: received)


def test_a_clip_without_depth_sends_none(ros, make_clip):
    depth, pictures = ros.collect(Image, "/depth"), ros.collect(Image, "/image_raw")
    ros.started(SimCamera, source=str(make_clip(depth=False)))
    eventually(lambda: len(pictures) > 5)
    assert depth == []


@pytest.mark.slow
def test_a_scenario_is_rendered_and_played(ros, tiny_scenario, tmp_path):
    received = ros.collect(GroundTruth, "/ground_truth")
    cache = str(tmp_path / "cache")
    node = ros.add(SimCamera, source=str(tiny_scenario), cache_dir=cache, render_workers=1)
    eventually(lambda: node.state() == ACTIVE, timeout=200)
    eventually(lambda: len({t.frame for t in received}) == 10)
    assert {o.label for t in received for o in t.objects} == {"mug", "apple"}


def test_the_container_knows_it_by_name():
    assert node_class("sim_camera") is SimCamera
