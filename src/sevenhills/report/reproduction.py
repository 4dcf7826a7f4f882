"""The code that makes the same report again."""

import platform
from hashlib import sha256
from inspect import signature
from typing import Any

import numpy as np

from .. import __version__
from .subject import Subject

#: How files are read, by the ends of their names.
_READERS = {
    ".csv": 'pd.read_csv("{}")',
    ".parquet": 'pd.read_parquet("{}")',
    ".npy": 'np.load("{}")',
}
_IMPORTS = {"pd": "import pandas as pd", "np": "import numpy as np"}


def code_of(subject: Subject, source: str | None, options: dict[str, Any]) -> str:
    """Return Python code that makes the same report from the same samples.

    Parameters
    ----------
    subject : Subject
    source : str or None
        The file that the samples come from.
    options : dict
        Keywords of the report; None where they were not given.
    """
    reading = _reading(subject, source)
    imports = [line for name, line in _IMPORTS.items() if f"= {name}." in reading]
    lines = [*imports, "", *_fitting(subject, reading)]
    given = {name: value for name, value in options.items() if value is not None}
    words = [f"{name}={_listed(value)!r}" for name, value in given.items()]
    words = words if subject.X is None else ["X=X", *words]
    lines.append(f"report({', '.join(['model', repr('report.html'), *words])})")
    return "\n".join(lines).strip() + "\n"


def _fitting(subject: Subject, reading: str) -> list[str]:
    own = "from sevenhills.report import report"
    if not subject.is_recipe:
        return [own, "", "model = ...  # the density", reading]
    call = f"{subject.kind}({_parameters(subject.model)})"
    lines = [f"from sevenhills import {subject.kind}", own, "", reading]
    if _has_given_labels(subject):
        return [*lines, "labels = ...  # the clusters", f"model = {call}.fit(X, labels=labels)"]
    return [*lines, f"model = {call}.fit(X)"]


def _has_given_labels(subject: Subject) -> bool:
    """Whether clusters were given: else there would be an ordering, or one cluster only."""
    labels = subject.labels
    return labels is not None and subject.ordering is None and len(np.unique(labels)) > 1


def _listed(value: Any) -> Any:
    """Return a sequence as a list of plain values."""
    return value if isinstance(value, str | int) else np.asarray(value).tolist()


def _reading(subject: Subject, source: str | None) -> str:
    if source is not None:
        for end, reader in _READERS.items():
            if source.endswith(end):
                return "X = " + reader.format(source.replace("\\", "\\\\").replace('"', '\\"'))
    known = "" if subject.n_samples is None else f"the {subject.n_samples} samples, "
    features = f"{len(subject.names)} feature{'' if len(subject.names) == 1 else 's'}"
    return f"X = ...  # {known}{features}"


def _parameters(model: Any) -> str:
    """Return the parameters of an estimator that are not at their defaults."""
    defaults = signature(type(model)).parameters
    given = model.get_params(deep=False)
    return ", ".join(
        f"{name}={value!r}"
        for name, value in given.items()
        if repr(value) != repr(defaults[name].default)
    )


def circumstances(subject: Subject) -> str:
    """Return what else the report depends on."""
    python, numpy = platform.python_version(), np.__version__
    made = f"Made with sevenhills {__version__}, numpy {numpy} and Python {python}."
    if subject.X is None:
        return made
    n_samples, n_features = subject.X.shape
    digest = sha256(np.ascontiguousarray(subject.X, dtype="<f8").tobytes()).hexdigest()
    return f"{made} The samples, {n_samples} by {n_features}: SHA-256 {digest[:16]}…"
