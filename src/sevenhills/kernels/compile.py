"""The ways in which this project compiles a function, all of them at its first call."""

import contextlib
import gc
import hashlib
import os
import shutil
import time
from collections.abc import Callable
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.event import Event, Listener, register

_COMMON = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
#: Without counts of references to arrays, which the caller keeps: to count takes longer than most
#: functions that are called in loops.
_INNER = {**_COMMON, "no_cpython_wrapper": True, "_nrt": False}

#: Called from kernels only, and compiled into them; makes no arrays.
inner = njit(**_INNER)

#: The same, where the function makes arrays.
allocating_inner = njit(**{**_INNER, "_nrt": True})

#: Called from kernels only, where passing the arrays would take as long as the work.
inlined = njit(forceinline=True, **_INNER)

#: Called from kernels only, where a product may be added without being rounded first.
fused_inner = njit(fastmath={"contract"}, **_INNER)

#: The same, where a sum may be reordered so that it vectorises.
summing_inner = njit(fastmath={"reassoc"}, **_INNER)

#: The same, where nothing is not a number, so that a comparison vectorises.
comparing_inner = njit(fastmath={"nnan", "nsz", "reassoc"}, **_INNER)

#: Kernels that are called with the number 0 are compiled twice: for a literal and for an integer.
ZERO = np.int64(0)


class _Stopwatch(Listener):
    """The time that compilers have taken; one compilation may start others.

    The garbage collector is disabled during compilation: it would take a tenth of the time, and
    would free little.
    """

    def __init__(self) -> None:
        self.seconds, self._n_open, self._start, self._collects = 0.0, 0, 0.0, False

    def on_start(self, event: Event) -> None:
        """Start with the outermost compilation."""
        if self._n_open == 0:
            self._start, self._collects = time.perf_counter(), gc.isenabled()
            gc.disable()
        self._n_open += 1

    def on_end(self, event: Event) -> None:
        """Stop with the outermost compilation."""
        self._n_open -= 1
        if self._n_open == 0:
            self.seconds += time.perf_counter() - self._start
            if self._collects:
                gc.enable()


# Numba compiles under a lock, so that two threads never report at the same time.
_stopwatch = _Stopwatch()
register("numba:compile", _stopwatch)


def compile_seconds() -> float:
    """Return the seconds that this process has spent on compiling, for sevenhills or others."""
    return _stopwatch.seconds


#: Beginning of the name of a folder of compiled kernels; a digest of their source follows.
_PREFIX = "sevenhills-"


@cache
def _source_digest() -> str:
    """Return a digest of all source files of this folder."""
    digest = hashlib.sha256()
    for file in sorted(resources.files(__package__).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".py"):
            source = file.read_bytes()
            digest.update(f"{file.name} {len(source)} ".encode() + source)
    return digest.hexdigest()[:16]


class _KernelCache(FunctionCache):
    """Numba's cache in a folder that is named after the source of all kernels.

    A kernel contains the functions of other files that it calls, and numba compares its own file
    only. Without space, permission or a sound file the cache is empty, and the kernel is compiled.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        folder = self._impl.locator.get_cache_path()
        self._cache_path = os.path.join(folder, _PREFIX + _source_digest())
        self._cache_file = IndexDataCacheFile(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=_source_digest(),
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled kernel of a signature, or None."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # unpickling a damaged file can raise anything
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the compiled kernel of a signature, if possible."""
        with contextlib.suppress(Exception):
            _make_only_folder(Path(self._cache_path))
            super().save_overload(sig, data)


def _make_only_folder(folder: Path) -> None:
    """Make the folder of this source and remove those of earlier ones."""
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for other in folder.parent.glob(_PREFIX + "*"):
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)


def kernel(function: Callable[..., Any], **options: Any) -> Any:
    """Compile for calls from Python: without the GIL, dividing like numpy, kept on disk.

    Where no folder can be written to, as in some containers, it is compiled in every process.
    """
    dispatcher = njit(**_COMMON, **options)(function)
    with contextlib.suppress(OSError, RuntimeError):
        dispatcher._cache = _KernelCache(function)
    return dispatcher


#: The same, where a product may be added without being rounded first.
fused_kernel = partial(kernel, fastmath={"contract"})
