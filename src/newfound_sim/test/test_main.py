# SPDX-License-Identifier: Apache-2.0
from newfound_sim.__main__ import main
from newfound_sim.clip import load_clip


def test_the_command_renders_a_scenario(tiny_scenario, tmp_path, capsys):
    out = tmp_path / "clip"
    arguments = ["render", str(tiny_scenario), "--out", str(out), "--workers", "1"]
    assert main([*arguments, "--no-depth", "--takes", "1"]) == 0
    assert "10 frames, 7 images, 5 Hz" in capsys.readouterr().out
    assert len(load_clip(out).frames) == 10


def test_a_bad_scenario_ends_with_line_and_reason_and_code_2(tiny_scenario, tmp_path, capsys):
    tiny_scenario.write_text(tiny_scenario.read_text().replace("mug", "unicorn"))
    assert main(["render", str(tiny_scenario), "--out", str(tmp_path / "clip")]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"newfound_sim: {tiny_scenario}:11: class must be one of")
    assert told.count("\n") == 1
    assert not (tmp_path / "clip").exists()
