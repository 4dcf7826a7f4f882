"""Connected pieces of regions of one and two features, and the modes in them."""

from typing import NamedTuple

import numpy as np


class Piece(NamedTuple):
    """A connected piece of a region, with its modes, the highest first.

    The ``outline`` is an interval (2,), or a closed polygon (n_vertices, 2) with ``holes``.
    """

    outline: np.ndarray
    modes: np.ndarray  #: (n_modes, n_features)
    holes: tuple[np.ndarray, ...] = ()


def interval_pieces(intervals: np.ndarray, modes: np.ndarray, turn: float) -> list[Piece]:
    """Return the pieces of a region of one feature; an interval may pass the end of a turn."""
    x = modes[:, 0]
    inside = [((low <= x) & (x <= high)) | (x + turn < high) for low, high in intervals]
    return _sorted([Piece(each, modes) for each in intervals], inside)


def polygon_pieces(polygons: list[np.ndarray], modes: np.ndarray) -> list[Piece]:
    """Return the pieces of a region of two features.

    Outlines are counter-clockwise, and holes clockwise. A hole is that of the smallest outline
    around it.
    """
    outlines = sorted((each for each in polygons if _area(each) > 0), key=_area)
    holes: list[list[np.ndarray]] = [[] for _ in outlines]
    for hole in polygons:
        around = [i for i, each in enumerate(outlines) if _is_inside(hole[:1], each)[0]]
        if _area(hole) < 0 and around:
            holes[around[0]].append(hole)
    pieces, inside = [], []
    for outline, own in zip(outlines, holes, strict=True):
        pieces.append(Piece(outline, modes, tuple(own)))
        in_hole = [_is_inside(modes, hole) for hole in own]
        inside.append(_is_inside(modes, outline) & ~np.any(in_hole, axis=0))
    return _sorted(pieces, inside)


def _sorted(pieces: list[Piece], inside: list[np.ndarray]) -> list[Piece]:
    """Give pieces the modes that are inside, and sort them by the highest, which comes first."""
    order = np.argsort([np.append(each, True).argmax() for each in inside], kind="stable")
    return [pieces[i]._replace(modes=pieces[i].modes[inside[i]]) for i in order]


def _area(polygon: np.ndarray) -> float:
    """Return the area of a closed polygon, negative if it is clockwise."""
    x, y = polygon.T
    return float(np.sum(x[:-1] * y[1:] - x[1:] * y[:-1])) / 2


def _is_inside(points: np.ndarray, polygon: np.ndarray) -> np.ndarray:
    """Return whether points are in a closed polygon: a ray crosses it an odd number of times."""
    x, y = points[:, :1], points[:, 1:]
    (x0, y0), (x1, y1) = polygon[:-1].T, polygon[1:].T
    crossed = (y0 > y) != (y1 > y)
    with np.errstate(divide="ignore", invalid="ignore"):
        at = x0 + (y - y0) / (y1 - y0) * (x1 - x0)
    return np.asarray((crossed & (x < at)).sum(axis=1) % 2 == 1)
