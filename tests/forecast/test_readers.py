import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sevenhills.forecast import Tracks, read_tracks, windows


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

    def test_no_windows(self):
        with pytest.raises(ValueError, match="no agent was observed at 20 successive steps"):
            windows(tracks_of([0, 1, 2]))
        with pytest.raises(ValueError, match="pass step"):
            windows(tracks_of([0], [3]))
