# SPDX-License-Identifier: Apache-2.0

import numpy as np
from PIL import Image

from newfound_training.running.figures import DPI, confusion, draw_confusions, pyplot, save_figure


def test_a_figure_becomes_a_png_alone_in_a_folder_made_for_it(tmp_path):
    figure, panel = pyplot.subplots(figsize=(2, 1))
    panel.plot([0, 1], [1, 0])
    path = tmp_path / "new/folder/line.png"
    save_figure(figure, path)
    with Image.open(path) as image:
        assert image.size == (2 * DPI, DPI)
    assert list(path.parent.iterdir()) == [path]
    assert not pyplot.fignum_exists(figure.number)


def test_rows_are_true_classes_and_columns_predicted_ones():
    found = confusion(np.array([0, 0, 0, 2]), np.array([0, 1, 1, 0]), 3)
    np.testing.assert_array_equal(found, [[1, 2, 0], [0, 0, 0], [1, 0, 0]])


def test_a_class_without_images_is_drawn_as_well(tmp_path):
    counts = {"before": np.array([[3, 1], [0, 0]]), "after": np.array([[4, 0], [0, 0]])}
    draw_confusions(counts, ["cup", "mug"], tmp_path / "figures" / "confusion.png")
    with Image.open(tmp_path / "figures" / "confusion.png") as image:
        assert image.width > 300


def test_many_classes_fit_without_names(tmp_path):
    names = [str(i) for i in range(100)]
    draw_confusions({"all": np.eye(100, dtype=int)}, names, tmp_path / "confusion.png")
    assert (tmp_path / "confusion.png").stat().st_size < 200_000
