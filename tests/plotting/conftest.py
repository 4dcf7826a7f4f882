import matplotlib as mpl
import pandas as pd
import pytest

from sevenhills import ROME, AutoROME, datasets

mpl.use("Agg")


@pytest.fixture
def ax():
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


@pytest.fixture(scope="module")
def aniso():
    X = datasets.load("aniso").sample(300, random_state=0)
    return ROME().fit(pd.DataFrame(X, columns=["east", "north"])), X


@pytest.fixture(scope="module")
def auto():
    X = datasets.make_shapes(150, random_state=0)
    return AutoROME().fit(X), X
