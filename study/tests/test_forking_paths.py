"""The annotation files of Forking Paths: names, boxes, steps and futures."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sevenhills import datasets
from study.forking_paths import load_forking_paths


def boxes(n_frames, center, *, missing=()):
    """A controlled agent at ``center(frame)`` and somebody else, as the files have them."""
    entries = []
    for frame in range(n_frames):
        x, y = center(frame)
        own = {"class_name": "Person", "is_x_agent": 1, "track_id": 303.0, "frame_id": frame}
        if frame not in missing:
            entries.append({**own, "bbox": [x - 2.0, y - 3.0, 4.0, 6.0]})
        entries.append({**own, "class_name": "Vehicle", "is_x_agent": 0, "bbox": [0, 0, 9, 9]})
    return entries


def fork(slope, at):
    return lambda frame: (5.0 * frame, slope * max(frame - at, 0))


def write(folder, name, entries):
    (folder / name).write_text(entries if isinstance(entries, str) else json.dumps(entries))


def test_forking_paths(tmp_path):
    bbox = tmp_path / "bbox"
    bbox.mkdir()
    write(bbox, "0000_0_303_1_2_cam4.json", boxes(400, fork(1, 132)))
    write(bbox, "0000_0_303_0_10_cam4.json", boxes(400, fork(-1, 132), missing=[1, 300]))
    write(bbox, "0000_0_303_0_9_cam4.json", boxes(170, fork(0, 132)))
    write(bbox, "0000_0_303_0_9_cam1.json", "not looked at")
    write(bbox, "zara01_1_252_2_7_cam4.json", boxes(300, fork(2, 110)))
    (bbox / "._0000_0_303_0_9_cam4.json").write_text("left by a file manager")
    first, second = load_forking_paths(tmp_path, scale=0.1)
    assert (first.name, second.name) == ("0000_0_303_cam4", "zara01_1_252_cam4")
    assert (first.scene, first.moment, first.agent, first.camera) == ("0000", 0, 303, "cam4")
    assert first.destinations == (0, 0, 1)
    assert first.annotators == (9, 10, 2)
    # 30 frames a second: every 12th; a future ends at its last box or before a missing one
    assert_allclose(first.observed, np.column_stack([6.0 * np.arange(12), np.zeros(12)]))
    assert [len(future) for future in first.futures] == [3, 13, 22]
    assert_allclose(first.futures[1][:2], [(72, -1.2), (78, -2.4)])
    # 25 frames a second: every tenth
    assert_allclose(second.observed[-1], (55, 0))
    assert_allclose(second.futures[0][0], (60, 2.0))
    for array in (first.observed, *first.futures):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert [scene.name for scene in load_forking_paths(bbox)] == [first.name, second.name]


def test_steps_of_forking_paths(tmp_path):
    write(tmp_path, "eth_0_3_0_1_cam2.json", boxes(101, fork(0, 0)))
    (scene,) = load_forking_paths(tmp_path, camera="cam2", n_observed=2, frequency=4)
    # frames 0, 6.25, 12.5, 18.75, ...
    assert_allclose(scene.observed[:, 0], [0, 30])
    assert_allclose(scene.futures[0][:2, 0], [60, 95])
    assert len(scene.futures[0]) == 15


def test_forking_paths_as_a_distribution(tmp_path):
    write(tmp_path, "0000_0_303_0_1_cam4.json", boxes(400, fork(1, 132)))
    write(tmp_path, "0000_0_303_1_1_cam4.json", boxes(400, fork(-1, 132)))
    write(tmp_path, "0000_0_303_2_1_cam4.json", boxes(170, fork(0, 132)))
    (scene,) = load_forking_paths(tmp_path, scale=0.01)
    paths = scene.paths(n_steps=5)
    assert paths.shape == (2, 10)
    assert_array_equal(paths[1], scene.futures[1][:5].ravel())
    assert scene.paths(3).shape == (3, 6)
    assert scene.paths(50).shape == (0, 100)
    distribution = scene.distribution(n_steps=5)
    assert distribution.name == scene.name
    first, second = distribution.split(0, 500)
    assert_allclose(first.mean(axis=0), paths.mean(axis=0), atol=0.05)
    expected = datasets.WalkModel(paths.reshape(2, 5, 2), scene.observed[-1]).logpdf(second)
    assert_array_equal(distribution.truth.logpdf(second), expected)
    with pytest.raises(ValueError, match="no future of 0000_0_303_cam4 has 30 steps"):
        scene.distribution(30)
    with pytest.raises(ValueError, match="n_steps"):
        scene.paths(0)


def test_futures_that_part_too_early(tmp_path):
    write(tmp_path, "0000_0_303_0_1_cam4.json", boxes(400, fork(1, 124)))
    write(tmp_path, "0000_0_303_1_1_cam4.json", boxes(400, fork(-1, 124)))
    with pytest.warns(UserWarning, match=r"1 of 1 scenes, by up to 16 pixels \(0000_0_303_cam4\)"):
        load_forking_paths(tmp_path)
    (scene,) = load_forking_paths(tmp_path, n_observed=11)
    assert scene.observed.shape == (11, 2)


GOOD = boxes(200, fork(1, 132))


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ("{", "not JSON"),
        ({"boxes": GOOD}, "list of boxes, got a dict"),
        (boxes(100, fork(1, 90)), "no box in frame 108, which belongs to the 12 observed"),
        (boxes(200, fork(1, 132), missing=[24]), "no box in frame 24"),
        ([entry for entry in GOOD if not entry["is_x_agent"]], "controlled agent"),
        ([], "controlled agent"),
        ([{k: v for k, v in entry.items() if k != "bbox"} for entry in GOOD], "key 'bbox'"),
        ([{k: v for k, v in entry.items() if k != "frame_id"} for entry in GOOD], "key 'frame_id'"),
        ([{k: v for k, v in e.items() if k != "is_x_agent"} for e in GOOD], "key 'is_x_agent'"),
        ([*GOOD, 5], "entry 5 is not a box"),
        ([{**GOOD[0], "bbox": [1, 2, 3]}], "is not a box"),
        ([{**GOOD[0], "bbox": [1, 2, 3, float("nan")]}], "finite"),
        ([{**GOOD[0], "frame_id": 0.5}], "whole number"),
        ([{**GOOD[0], "frame_id": None}], "is not a box"),
        ([*GOOD, GOOD[0]], "two boxes in frame 0"),
    ],
)
def test_bad_files_are_named(tmp_path, entries, reason):
    write(tmp_path, "0000_0_303_0_1_cam4.json", entries)
    with pytest.raises(ValueError, match=rf"0000_0_303_0_1_cam4\.json: .*{reason}"):
        load_forking_paths(tmp_path)


def test_files_of_another_encoding_are_named(tmp_path):
    (tmp_path / "0000_0_303_0_1_cam4.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"0000_0_303_0_1_cam4\.json: not JSON"):
        load_forking_paths(tmp_path)


def test_bad_folders_and_options(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_forking_paths(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="no annotation files"):
        load_forking_paths(tmp_path)
    write(tmp_path, "0000_0_303_0_1_cam4.json", GOOD)
    with pytest.raises(ValueError, match=r"files of \['cam4'\], none of camera 'cam1'"):
        load_forking_paths(tmp_path, camera="cam1")
    for options in ({"n_observed": 0}, {"scale": 0}, {"frequency": -1}, {"frequency": 26}):
        with pytest.raises(ValueError, match=next(iter(options))):
            load_forking_paths(tmp_path, **options)
    write(tmp_path, "summary.json", GOOD)
    with pytest.raises(ValueError, match=r"summary\.json: the name must have the form"):
        load_forking_paths(tmp_path)
