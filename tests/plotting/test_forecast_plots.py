"""Pictures of forecasts."""

import numpy as np
import pytest

from sevenhills import forecast, plotting

pytestmark = pytest.mark.usefixtures("_no_place_is_searched_for_a_legend")


@pytest.fixture(scope="module")
def walks():
    paths = np.random.RandomState(0).standard_normal((20, 13, 3, 2)).cumsum(axis=2)
    return paths[:, 1:], paths[:, 0]


def test_calibration_has_a_bar_for_every_level(walks, ax):
    evaluations = [forecast.evaluate(f * walks[0], walks[1], measures="ece") for f in (1.0, 0.2)]
    for i, evaluation in enumerate(evaluations):
        assert plotting.plot_calibration(evaluation, ax, label=f"forecast {i}") is ax
    colors = {str(drawn.lines[0].get_color()) for drawn in ax.containers}
    assert len(colors) == 2
    observed = ax.containers[0].lines[0].get_ydata()
    np.testing.assert_array_equal(observed, evaluations[0].coverage.observed)
    assert ax.get_title() == ""
    labels = ax.get_legend_handles_labels()[1]
    assert labels == [
        f"forecast {i}, ECE {each['ece'].mean:.3f}" for i, each in enumerate(evaluations)
    ]
    ax.clear()
    assert "by chance" in plotting.plot_calibration(evaluations[0], ax).get_title()
    with pytest.raises(ValueError, match="'ece'"):
        plotting.plot_calibration(forecast.evaluate(*walks, measures="ade"), ax)


def test_a_comparison_names_measures_and_differences(walks, ax):
    first, second = (
        forecast.evaluate(f * walks[0], walks[1], measures=("nll_step", "ade", "fde"))
        for f in (1.0, 0.2)
    )
    comparison = forecast.compare(first, second, names=("wide", "narrow"), n_permutations=9)
    assert plotting.plot_comparison(comparison, ax) is ax
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["nll_step", "ade", "fde"]
    assert ax.get_title() == "wide minus narrow"
    ax.figure.draw_without_rendering()
    frame = ax.get_window_extent()
    names = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert all(frame.x0 < name.x0 and name.x1 < frame.x1 for name in names)
    assert any(f"{comparison['ade'].difference:+.3g}" in text.get_text() for text in ax.texts)


def test_a_forecast_shows_samples_and_truth(walks, ax):
    predictions, truth = walks[0].copy(), walks[1]
    predictions[3, 5:] = np.nan
    assert plotting.plot_forecast(predictions, truth, 3, ax) is ax
    drawn = [segment for segment in ax.collections[0].get_segments() if len(segment)]
    assert len(drawn) == 5
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), truth[3, :, 0])
    with pytest.raises(ValueError, match="below 20"):
        plotting.plot_forecast(predictions, truth, 20, ax)
    with pytest.raises(ValueError, match="only 2 coordinates"):
        plotting.plot_forecast(predictions[..., :1], truth[..., :1], 0, ax)
