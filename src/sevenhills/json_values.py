"""Values as JSON can hold them."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np


def json_value(value: Any) -> Any:
    """Return a value without numpy's types, and with None for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {str(key): json_value(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return json_value(value.tolist())
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    return value
