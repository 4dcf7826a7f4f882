import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from sevenhills.forecast import Tracks, read_tracks, windows

COLUMNS = ("frames", "agents", "positions")


class TestTracks:
    def test_reads_spaces_tabs_commas_and_float_frames(self, tmp_path):
        file = tmp_path / "eth.txt"
        file.write_text("# frame id x y\n780.0\t2.0\t1.5\t-2\n\n10 1 3 4\n20,1,5,6 # seen late\n")
        tracks = read_tracks(file)
        assert_array_equal(tracks.agents, [1, 1, 2])
        assert_array_equal(tracks.frames, [10, 20, 780])
        assert_array_equal(tracks.positions, [[3, 4], [5, 6], [1.5, -2]])
        assert tracks.step == 10
        assert repr(tracks) == "Tracks(n_agents=2, n_points=3)"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("0 1 2 3\n10 1 2\n", r"t.txt, line 2: expected frame, agent, x and y, got 3 columns"),
            ("0 1 2 3 4 5 6 7\n", "line 1: .* got 8 columns"),
            ("\n0 1 2 3\n10 1 x 3\n", "line 3: .*'x'"),
            ("0 1 nan 3\n", "line 1: all values must be finite"),
            ("0 1.5 2 3\n", "line 1: the agent must be a whole number"),
            (
                "0 1 2 3\n10 1 2 3\n0 1 5 5\n",
                "t.txt .* agent 1 .* at frame 0",
            ),
            ("# nothing\n", "t.txt has no lines"),
        ],
    )
    def test_says_which_line_is_wrong(self, tmp_path, text, message):
        (tmp_path / "t.txt").write_text(text)
        with pytest.raises(ValueError, match=message):
            read_tracks(tmp_path / "t.txt")


ROWS = [(0, 1, 0.5, 2.0), (10, 1, 0.75, 2.5), (20, 1, 1.0, 3.0), (10, 2, 5.0, 5.0)]


def argoverse(rows, scenario="a1", **changes):
    """The columns of a scenario of Argoverse 2."""
    frame = pd.DataFrame(rows, columns=["timestep", "track_id", "position_x", "position_y"])
    frame["track_id"] = ["AV" if each == 2 else str(each) for each in frame["track_id"]]
    frame = frame.assign(observed=frame["timestep"] < 10, object_type="vehicle", object_category=3)
    frame = frame.assign(heading=0.1, velocity_x=1.0, velocity_y=0.0, scenario_id=scenario)
    frame = frame.assign(start_timestamp=1.0, end_timestamp=2.0, num_timestamps=110, map_id=3)
    return frame.assign(focal_track_id="1", city="austin", **changes)


def trajnet(rows):
    lines = [{"scene": {"id": 0, "p": 1, "s": 0, "e": 20, "fps": 2.5, "tag": [3, [1]]}}]
    lines += [{"track": dict(zip("fpxy", row, strict=True))} for row in rows]
    return "\n".join(map(json.dumps, lines)) + "\n"


class TestFormats:
    """All formats have the same tracks."""

    @pytest.mark.parametrize(
        ("name", "write"),
        [
            (
                "eth.txt",
                lambda frame, path: frame.to_csv(path, sep="\t", header=False, index=False),
            ),
            ("eth.csv", lambda frame, path: frame.to_csv(path, header=False, index=False)),
            ("table.csv", lambda frame, path: frame.to_csv(path, index=False)),
            ("table.csv", lambda frame, path: frame[["y", "x", "agent", "frame"]].to_csv(path)),
            ("table.txt", lambda frame, path: frame.to_csv(path, sep=";", index=False)),
            ("table.txt", lambda frame, path: frame.to_csv(path, sep=" ", index=False)),
            ("table.parquet", lambda frame, path: frame.to_parquet(path)),
            ("walks.ndjson", lambda frame, path: path.write_text(trajnet(frame.values.tolist()))),
        ],
    )
    def test_tracks_are_read(self, tmp_path, name, write):
        write(pd.DataFrame(ROWS, columns=["frame", "agent", "x", "y"]), tmp_path / name)
        for tracks in (read_tracks(tmp_path / name), read_tracks(str(tmp_path))):
            assert_array_equal(tracks.frames, [0, 10, 20, 10])
            assert_array_equal(tracks.agents, [1, 1, 1, 2])
            assert tracks.agents.dtype.kind == "i"
            assert_array_equal(tracks.positions, [[0.5, 2], [0.75, 2.5], [1, 3], [5, 5]])
            assert_array_equal(tracks.recordings, [name.split(".")[0]] * 4)

    def test_argoverse(self, tmp_path):
        """A folder with a folder for every scenario; agents have names."""
        for scenario in ("a1", "b2"):
            (tmp_path / scenario).mkdir()
            frame = argoverse(ROWS, scenario)
            frame.to_parquet(tmp_path / scenario / f"scenario_{scenario}.parquet")
            (tmp_path / scenario / f"log_map_archive_{scenario}.json").write_text("{}")
        tracks = read_tracks(tmp_path)
        assert repr(tracks) == "Tracks(n_recordings=2, n_agents=4, n_points=8)"
        assert_array_equal(tracks.agents, ["1", "1", "1", "AV"] * 2)
        assert_array_equal(tracks.recordings, ["a1"] * 4 + ["b2"] * 4)
        assert_array_equal(tracks.positions[:3], [[0.5, 2], [0.75, 2.5], [1, 3]])
        found = windows(tracks, 1, 1, agents=True)
        assert_array_equal(found.recordings, ["a1", "a1", "b2", "b2"])
        assert_array_equal(found.agents[:, 0], ["1"] * 4)

    def test_absent_agents_have_no_name(self):
        tracks = Tracks([0, 1, 2, 1, 2], ["a", "a", "a", "b", "b"], np.zeros((5, 2)))
        assert_array_equal(windows(tracks, 1, 1, agents=True).agents, [["a", ""], ["a", "b"]])

    def test_a_column_of_recordings(self, tmp_path):
        frame = pd.DataFrame(ROWS, columns=["frame", "agent", "x", "y"])
        frame["recording"] = [3, 3, 4, 4]
        frame.to_csv(tmp_path / "t.csv", index=False)
        assert_array_equal(read_tracks(tmp_path / "t.csv").recordings, ["3", "3", "4", "4"])

    def test_several_files(self, tmp_path):
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        for name in ("a/one.txt", "a/two.txt", "b/one.txt"):
            (tmp_path / name).write_text("0 1 2 3\n10 1 2 4\n")
        both = read_tracks([tmp_path / "a/two.txt", tmp_path / "a/one.txt"])
        assert_array_equal(both.recordings, ["one", "one", "two", "two"])
        assert len(np.unique(read_tracks(tmp_path).recordings)) == 3
        for nothing, error in ((tmp_path / "c", FileNotFoundError), ([], ValueError)):
            with pytest.raises(error):
                read_tracks(nothing)
        (tmp_path / "d").mkdir()
        with pytest.raises(ValueError, match=r"d has no \.txt"):
            read_tracks(tmp_path / "d")

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("t.csv", "frame,id,x,y\n0,1,2,3\n", "t.csv must have the columns .* found frame, id"),
            ("t.csv", "frame,agent,x,y\n\n0,1,2,3\n0,1,2\n", "t.csv .*line 4: Expected 4 columns"),
            ("t.csv", "frame,agent,x,y\n0,1,2,here\n", "t.csv .*line 2: .*'here'"),
            ("t.csv", "frame,agent,x,y\n0,1,2,\n", "t.csv, row 1: all values must be finite"),
            ("t.csv", "frame,agent,x,y\n0,1.5,2,3\n", "t.csv cannot be read: agents must be whole"),
            ("t.ndjson", trajnet(ROWS) + "\n{\n", "t.ndjson, line 7: expected"),
            ("t.ndjson", '{"track": {"f": 0, "p": 1, "x": 1}}', "t.ndjson, line 1: .*'y'"),
            ("t.ndjson", '{"track": {"f": 0, "p": 1, "x": 1, "y": NaN}}', "line 1: .*finite"),
            ("t.ndjson", '{"row": {"f": 0}}', "line 1: expected"),
            ("t.ndjson", trajnet([]), "t.ndjson has no lines with a track"),
            (
                "t.ndjson",
                '{"track": {"f": 0, "p": 1, "x": 1, "y": 2, "prediction_number": 0}}',
                "line 1: this is a prediction",
            ),
            ("t.parquet", "nothing", "t.parquet cannot be read"),
        ],
    )
    def test_errors_name_file_and_line(self, tmp_path, name, text, message):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=message):
            read_tracks(tmp_path / name)


def tracks_of(*seen):
    """Tracks of agents by the numbers of the steps at which they were seen, x being the frame."""
    frames = np.concatenate([10.0 * np.array(each) for each in seen])
    agents = np.repeat(np.arange(len(seen)), [len(each) for each in seen])
    return Tracks(frames, agents, np.column_stack([frames, agents]))


class TestWindows:
    def test_equals_looking_at_every_frame(self):
        """The slow twin asks for every agent, every frame and every step."""
        rng = np.random.RandomState(0)
        seen = [np.flatnonzero(rng.uniform(size=30) < 0.9) + rng.randint(5) for _ in range(6)]
        tracks = tracks_of(*seen)
        for stride in (1, 3):
            found = windows(tracks, 3, 4, stride=stride)
            begin = min(each[0] for each in seen)
            expected = [
                (10.0 * first, agent)
                for first in range(40)
                for agent, each in enumerate(seen)
                if set(range(first, first + 7)) <= set(each) and (first - begin) % stride == 0
            ]
            assert list(zip(found.frames, found.agents, strict=True)) == expected
            assert_array_equal(found.observed[..., 0], found.frames[:, None] + [0, 10, 20])
            assert_array_equal(found.future[..., 0], found.frames[:, None] + [30, 40, 50, 60])

    def test_gaps_end_windows(self):
        found = windows(tracks_of([0, 1, 2, 4, 5, 6, 7]), 2, 1)
        assert_array_equal(found.frames, [0, 40, 50])

    def test_wider_steps(self):
        assert_array_equal(windows(tracks_of(np.arange(5)), 1, 2, step=20).frames, [0])

    def test_agents_side_by_side(self):
        found = windows(tracks_of(np.arange(4), np.arange(1, 9)), 2, 1, agents=True)
        assert found.observed.shape == (7, 2, 2, 2)
        assert_array_equal(found.agents[:3], [[0, -1], [0, 1], [1, -1]])
        assert np.isnan(found.future[0, 1]).all()
        assert_array_equal(found.future[1, :, 0, 1], [0, 1])

    @pytest.mark.parametrize("agents", [False, True])
    def test_recordings_are_cut_by_themselves(self, agents):
        """The same agents at the same frames, with another step and another start."""
        first = tracks_of(np.arange(6), [1, 2, 3, 5, 6, 7])
        second = Tracks(first.frames * 0.6 + 7, first.agents, first.positions + 100)
        joined = Tracks(
            *(
                np.concatenate([getattr(each, name) for each in (first, second)])
                for name in COLUMNS
            ),
            np.repeat(["a", "b"], len(first.frames)),
        )
        found = windows(joined, 2, 1, stride=2, agents=agents)
        parts = [windows(each, 2, 1, stride=2, agents=agents) for each in (first, second)]
        assert_array_equal(found.recordings, np.repeat(["a", "b"], [len(each) for each in parts]))
        for name in ("observed", "future", "frames", "agents"):
            assert_array_equal(
                getattr(found, name), np.concatenate([getattr(each, name) for each in parts])
            )

    def test_windows_do_not_cross_recordings(self):
        tracks = Tracks([0, 1, 2, 3], [1, 1, 1, 1], np.zeros((4, 2)), ["a", "a", "b", "b"])
        assert_array_equal(windows(tracks, 1, 1).frames, [0, 2])
        with pytest.raises(ValueError, match="no agent was observed at 3"):
            windows(tracks, 1, 2)
        with pytest.raises(ValueError, match="recordings must have 4 points, got 2"):
            Tracks([0, 1, 2, 3], [1, 1, 1, 1], np.zeros((4, 2)), ["a", "a"])

    def test_groups_are_agents_or_blocks_of_time(self, tmp_path):
        found = windows(tracks_of(np.arange(9), np.arange(3, 12)), 2, 1)
        assert_array_equal(found.groups, [f"agent {number}" for number in found.agents])
        together = windows(tracks_of(np.arange(40), np.arange(8, 70)), 2, 1, agents=True)
        blocks = (together.frames // (5 * 3 * 10)).astype(int)
        assert_array_equal(together.groups, [f"block {number}" for number in blocks])
        for name, first in (("hotel", 0), ("zara1", 7000)):
            lines = [f"{first + 5 * i} 3 1 {i}" for i in range(18)]
            (tmp_path / f"{name}.txt").write_text("\n".join(lines))
        tracks = read_tracks(tmp_path)
        agents = ["hotel agent 3"] * 16 + ["zara1 agent 3"] * 16
        assert_array_equal(windows(tracks, 2, 1).groups, agents)
        names = [f"{name} block {i // 15}" for name in ("hotel", "zara1") for i in range(16)]
        assert_array_equal(windows(tracks, 2, 1, agents=True).groups, names)

    def test_no_windows(self):
        with pytest.raises(ValueError, match="no agent was observed at 20 successive steps"):
            windows(tracks_of([0, 1, 2]))
        with pytest.raises(ValueError, match="pass step"):
            windows(tracks_of([0], [3]))
