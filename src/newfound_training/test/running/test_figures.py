# SPDX-License-Identifier: Apache-2.0
from PIL import Image

from newfound_training.running.figures import DPI, pyplot, save_figure


def test_a_figure_becomes_a_png_alone_in_a_folder_made_for_it(tmp_path):
    figure, panel = pyplot.subplots(figsize=(2, 1))
    panel.plot([0, 1], [1, 0])
    path = tmp_path / "new/folder/line.png"
    save_figure(figure, path)
    with Image.open(path) as image:
        assert image.size == (2 * DPI, DPI)
    assert list(path.parent.iterdir()) == [path]
    assert not pyplot.fignum_exists(figure.number)
