# SPDX-License-Identifier: Apache-2.0
"""The camera over real DDS, on clips that need no rendering."""

import subprocess
import sys
import threading

import cv2
import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from std_srvs.srv import SetBool, Trigger

from newfound_msgs.msg import GroundTruth
from newfound_runtime import images
from newfound_runtime.bag_testing import PERIOD, START, camera_messages, write_db3, write_mcap
from newfound_runtime.container import node_class
from newfound_runtime.testing import ACTIVE, INACTIVE, UNCONFIGURED, eventually, values
from newfound_sim.clip_rendering import ClipOptions, render_clip
from newfound_sim.rooms.masks import CLASSES
from newfound_sim.scenario import RenderSettings, RoomsScenario, Visit
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


def test_the_camera_of_a_clip_says_where_it_is_in_the_map(ros):
    poses = ros.collect(PoseStamped, "/camera_pose")
    truths = ros.collect(GroundTruth, "/ground_truth")
    ros.started(SimCamera, source="workbench_demo", rate=50.0, map_frame="table")
    eventually(lambda: set(stamps(poses)) & set(stamps(truths)))
    assert poses[0].header.frame_id == "table"
    assert (poses[0].pose.position.y, poses[0].pose.position.z) == (-0.4, 0.46)
    assert poses[0].pose.orientation.x < -0.9  # it looks down, its x axis is to the right


def test_a_source_that_does_not_know_its_poses_publishes_none(ros, make_clip):
    poses = ros.collect(PoseStamped, "/camera_pose")
    truths = ros.collect(GroundTruth, "/ground_truth")
    ros.started(SimCamera, source=str(make_clip()), rate=50.0)
    eventually(lambda: len(truths) > 5)
    assert not poses


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
    always = {"image_raw", "camera_info", "camera_pose", "ground_truth", "mask"}
    assert set(camera._outputs) == always
    received = ros.collect(Image, "/image_raw", reliable=False)
    eventually(lambda: received)


def test_a_clip_without_depth_sends_none(ros, make_clip):
    depth, pictures = ros.collect(Image, "/depth"), ros.collect(Image, "/image_raw")
    ros.started(SimCamera, source=str(make_clip(depth=False)))
    eventually(lambda: len(pictures) > 5)
    assert depth == []


def test_a_bag_is_played_with_its_depth_camera_and_original_stamps(ros, tmp_path):
    got = {t: ros.collect(k, f"/{t}") for t, k in
           (("image_raw", Image), ("depth", Image), ("camera_info", CameraInfo))}  # fmt: skip
    bag = write_db3(tmp_path / "bag", camera_messages(frames=3))
    camera = ros.started(
        SimCamera, source=str(bag), rate=20.0, stamps="original", loop=False, start_paused=True
    )
    eventually(lambda: all(camera.wanted(output) for output in got))
    ros.call(Trigger, "/sim_camera/restart", Trigger.Request())
    eventually(lambda: all(len(received) == 3 for received in got.values()))
    for received in got.values():
        nanoseconds = [sec * 10**9 + rest for sec, rest in stamps(received)]
        assert nanoseconds == [START + n * PERIOD for n in range(3)]
    assert [brightness(m) for m in got["image_raw"]] == [0, 20, 40]
    assert images.to_depth(got["depth"][2])[0, 0] == pytest.approx(1.002)
    assert [m.k[0] for m in got["camera_info"]] == [40.0, 41.0, 42.0]


def test_original_stamps_never_go_back_in_a_loop_or_after_a_restart(ros, tmp_path):
    received = ros.collect(Image, "/image_raw")
    bag = write_mcap(tmp_path / "a.mcap", camera_messages(frames=3))
    camera = ros.started(SimCamera, source=str(bag), rate=50.0, stamps="original")
    eventually(lambda: camera._player.loops >= 3 and len(received) > 9)
    ros.call(Trigger, "/sim_camera/restart", Trigger.Request())
    count = len(received)
    eventually(lambda: len(received) > count + 5)
    found = stamps(received)
    assert found == sorted(set(found))


def test_depth_in_metres_is_published_as_it_is(ros, tmp_path):
    for name, pixels in (("rgb", np.zeros((24, 32, 3), np.uint8)),
                         ("depth", np.full((24, 32), 6001, np.uint16))):  # fmt: skip
        (tmp_path / name).mkdir()
        cv2.imwrite(str(tmp_path / name / "12.500000.png"), pixels)
    depth = ros.collect(Image, "/depth")
    ros.started(SimCamera, source=str(tmp_path))
    eventually(lambda: depth)
    assert depth[0].encoding == "32FC1"
    assert images.to_depth(depth[0])[0, 0] == pytest.approx(6001 / 5000)


def test_labels_of_a_real_recording_are_its_ground_truth(ros):
    truths = ros.collect(GroundTruth, "/ground_truth")
    ros.started(SimCamera, source="real_table", rate=50.0)
    eventually(lambda: {t.frame for t in truths} == set(range(6)))
    objects = {t.frame: len(t.objects) for t in truths}
    assert objects == {0: 2, 1: 2, 2: 2, 3: 2, 4: 3, 5: 3}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"stamps": "original", "source": "real_table"}, "has no stamps of its own"),
        ({"bag_image_topic": "/rear"}, "no images on /rear. Its topics: /chatter"),
        ({"source": "/no/such.mcap"}, "does not exist"),
    ],
)
def test_a_recording_that_cannot_be_played_so_is_refused_in_one_line(
    ros, tmp_path, capfd, values, told
):
    bag = write_mcap(tmp_path / "a.mcap", camera_messages(frames=2))
    ros.add(SimCamera, autostart=False, **{"source": str(bag), **values})
    assert not ros.change("/sim_camera", "configure")
    (line,) = [x for x in capfd.readouterr().err.splitlines() if "not configured" in x]
    assert told in line


def test_a_cut_off_recording_is_played_with_a_warning(ros, tmp_path):
    bag = write_mcap(tmp_path / "a.mcap", camera_messages(), compress=False)
    bag.write_bytes(bag.read_bytes()[: bag.stat().st_size // 2])
    received = ros.collect(Image, "/image_raw")
    ros.started(SimCamera, source=str(bag), rate=50.0)
    eventually(lambda: len(received) > 3)
    eventually(lambda: ros.logged("cut off or damaged"))


def test_a_recording_is_played_without_the_renderer(tmp_path):
    write_mcap(tmp_path / "a.mcap", camera_messages(frames=2))
    script = (
        "import sys; sys.modules.update(dict.fromkeys(('mitsuba', 'drjit', 'trimesh', 'torch')));"
        "from pathlib import Path; from newfound_sim.sim_camera import SimCamera;"
        "from newfound_sim.sources import open_source;"
        f"print(len(open_source(Path({str(tmp_path / 'a.mcap')!r}))))"
    )
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "2\n"


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


def test_the_class_of_every_pixel_of_a_room_is_published_while_somebody_listens(ros, tmp_path):
    settings = RenderSettings(rate=4, width=32, height=24, samples=1)
    scenario = RoomsScenario(settings, "cottage", "cloudy", (Visit("office", 0, 2),))
    clip = render_clip(scenario, tmp_path / "rooms", ClipOptions(takes=1), workers=1)
    assert clip.classes == CLASSES
    assert clip.frames[0].mask == "masks/00000.png"
    masks, pictures = ros.collect(Image, "/ground_truth/mask"), ros.collect(Image, "/image_raw")
    ros.started(SimCamera, source=str(tmp_path / "rooms"), rate=20.0)
    eventually(lambda: len(masks) >= 4 and len(pictures) >= 4)
    assert set(stamps(masks)) & set(stamps(pictures))
    assert {(m.encoding, m.width, m.height) for m in masks} == {("mono8", 32, 24)}
    values_seen = np.frombuffer(bytes(masks[0].data), np.uint8)
    assert {"wall", "floor"} <= {CLASSES[number] for number in np.unique(values_seen)}


def test_a_source_without_masks_publishes_none(ros, make_clip):
    masks = ros.collect(Image, "/ground_truth/mask")
    truths = ros.collect(GroundTruth, "/ground_truth")
    ros.started(SimCamera, source=str(make_clip()), rate=50.0)
    eventually(lambda: len(truths) >= 8)
    assert not masks
