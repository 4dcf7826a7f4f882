"""Numbers and text on their way into a page."""

import json
from base64 import b64encode
from typing import Any

import numpy as np

#: How arrays travel: little-endian, as the typed arrays of browsers are.
_TYPES = {"f4": "<f4", "u2": "<u2", "i4": "<i4"}
#: Heights lower than this below the highest are drawn as if they were nothing, in nats.
DEPTH = 14.0
_LARGEST = float(np.finfo(np.float32).max)


def pack(array: np.ndarray, kind: str = "f4") -> dict[str, Any]:
    """Return an array as something that JSON can hold and the page unpacks.

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills.report.packing import pack
    >>> pack(np.array([1.0, 2.0]))
    {'kind': 'f4', 'shape': [2], 'bytes': 'AACAPwAAAEA='}
    """
    array = np.asarray(array)
    if kind == "f4":
        array = np.clip(array, -_LARGEST, _LARGEST)
    data = np.ascontiguousarray(array, dtype=_TYPES[kind])
    return {"kind": kind, "shape": list(data.shape), "bytes": b64encode(data.tobytes()).decode()}


def pack_rows(rows: np.ndarray) -> dict[str, Any]:
    """Return rows measured from their own middles, lest large numbers lose their digits.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_values)
    """
    middles = np.median(rows, axis=1) if rows.shape[1] else np.zeros(len(rows))
    return {"middles": middles.tolist(), "rest": pack(rows - middles[:, None])}


def pack_heights(logs: np.ndarray) -> dict[str, Any]:
    """Return log densities below their highest one, in 65535 steps."""
    depth = np.clip(logs.max(initial=-np.inf) - logs, 0.0, DEPTH)
    return pack(np.rint((1 - depth / DEPTH) * 65535), "u2")


def to_json(value: Any) -> str:
    """Return JSON that can stand inside a script element, whatever the text in it."""
    text = json.dumps(_plain(value), separators=(",", ":"), allow_nan=False, sort_keys=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plain(value: Any) -> Any:
    """Return a value without numpy's types, and with null for what is not a finite number."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value
