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


def code_of(subject: Subject, source: str | None) -> str:
    """Return Python code that makes the same report from the same samples."""
    reading = _reading(subject, source)
    imports = [line for name, line in _IMPORTS.items() if f"= {name}." in reading]
    lines = [*imports, "", *_fitting(subject, reading)]
    lines.append('report(model, "report.html", X=X)')
    return "\n".join(lines).strip() + "\n"


def _fitting(subject: Subject, reading: str) -> list[str]:
    own = "from sevenhills.report import report"
    if not subject.is_recipe:
        return [own, "", "model = ...  # the density", reading]
    call = f"{subject.kind}({_parameters(subject.model)})"
    return [f"from sevenhills import {subject.kind}", own, "", reading, f"model = {call}.fit(X)"]


def _reading(subject: Subject, source: str | None) -> str:
    if source is not None:
        for end, reader in _READERS.items():
            if source.endswith(end):
                return "X = " + reader.format(source.replace("\\", "\\\\").replace('"', '\\"'))
    known = "" if subject.n_samples is None else f"the {subject.n_samples} samples, "
    return f"X = ...  # {known}{len(subject.names)} features"


def _parameters(model: Any) -> str:
    """Return the parameters of an estimator that are not at their defaults."""
    defaults = signature(type(model)).parameters
    given = model.get_params(deep=False)
    return ", ".join(
        f"{name}={value!r}"
        for name, value in given.items()
        if repr(value) != repr(defaults[name].default)
    )


def circumstances(subject: Subject) -> list[tuple[str, str]]:
    """Return what else the report depends on."""
    out = [
        ("sevenhills", __version__),
        ("numpy", np.__version__),
        ("Python", platform.python_version()),
    ]
    if subject.X is not None:
        shape = " × ".join(str(n) for n in subject.X.shape)
        digest = sha256(np.ascontiguousarray(subject.X, dtype="<f8").tobytes()).hexdigest()
        out.append(("samples", f"{shape}, SHA-256 {digest[:16]}"))
    return out
