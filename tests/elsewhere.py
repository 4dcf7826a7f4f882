"""The quick tests on machines unlike this one: ``python -m tests.elsewhere [PYTEST ARGUMENTS]``.

Every machine is a process with another processor, locale, time zone, user and load, as far as this
machine can play it. For each one its description and the last line of pytest are printed, and all
of its output where a test fails.
"""

import contextlib
import json
import locale
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

#: A user that owns nothing.
NOBODY = 65534
COMMA_LOCALE = "de_DE.UTF-8"
#: By this processor's maker, an old and a newer processor of another, as OpenBLAS calls them.
CORES = {
    "AuthenticAMD": ("Nehalem", "Haswell"),
    "GenuineIntel": ("Barcelona", "Zen"),
    "arm": ("CORTEXA53", "NEOVERSEN1"),
}
#: Spins until its parent is gone, however that ends.
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"
#: What a process finds on its machine.
PROBE = """
import json, locale, os, time
locale.setlocale(locale.LC_ALL, "")
import numba, numpy, scipy.linalg
from llvmlite import binding
from numpy._core import _multiarray_umath as umath
from threadpoolctl import threadpool_info
mask = os.umask(0)
print(json.dumps({
    "numba": numba.config.CPU_NAME or binding.get_host_cpu_name(),
    "numpy": [name for name in umath.__cpu_dispatch__ if umath.__cpu_features__[name]],
    "OpenBLAS": sorted({str(pool.get("architecture")) for pool in threadpool_info()}),
    "threads": max([pool["num_threads"] for pool in threadpool_info()], default=1),
    "time zone": time.tzname[0],
    "a half": locale.format_string("%.1f", 0.5),
    "umask": f"{mask:03o}",
    "user": os.getuid(),
    "home": os.environ.get("HOME"),
}))
"""


class Machine(NamedTuple):
    """A machine to play: variables of its environment, and the way in which a process starts."""

    name: str
    variables: dict[str, str]
    umask: int = 0o022
    is_nobody: bool = False
    n_busy: int = 0


def machines(folder):
    """Return the machines; files that they need go to a folder."""
    old, newer = CORES.get(vendor(), ("Generic", "Generic"))
    return (
        Machine(
            "an old processor, one thread, a decimal comma",
            {
                "NUMBA_CPU_NAME": "generic",
                "NUMBA_CPU_FEATURES": "",
                "NPY_DISABLE_CPU_FEATURES": " ".join(numpy_features()),
                "OPENBLAS_CORETYPE": old,
                **threads(1),
                "TZ": "Pacific/Chatham",
                **comma_locale(folder),
            },
        ),
        Machine(
            "a busy server, four threads, a user without rights and home",
            {
                "OPENBLAS_CORETYPE": newer,
                **threads(4),
                "TZ": "America/St_Johns",
                "LC_ALL": "C",
            },
            umask=0o077,
            is_nobody=True,
            n_busy=2,
        ),
    )


def vendor():
    """Return the name of the processor's maker."""
    if platform.machine().lower() in ("aarch64", "arm64"):
        return "arm"
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("vendor_id"):
                return line.split()[-1]
    return None


def numpy_features():
    """Return what numpy uses of this processor beyond the least that it needs."""
    from numpy._core import _multiarray_umath as umath

    return [name for name in umath.__cpu_dispatch__ if umath.__cpu_features__[name]]


def threads(number):
    names = ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "NUMBA_NUM", "POLARS_MAX")
    return {f"{name}_THREADS": str(number) for name in names}


def comma_locale(folder):
    """Return the variables of a locale with a decimal comma, made if it is not installed."""
    with contextlib.suppress(locale.Error):
        before = locale.setlocale(locale.LC_ALL)
        locale.setlocale(locale.LC_ALL, COMMA_LOCALE)
        locale.setlocale(locale.LC_ALL, before)
        return {"LC_ALL": COMMA_LOCALE}
    target = folder / "locales" / COMMA_LOCALE
    target.parent.mkdir()
    source, encoding = COMMA_LOCALE.split(".")
    command = ["localedef", "-i", source, "-f", encoding, str(target)]
    if shutil.which(command[0]) and subprocess.run(command, capture_output=True).returncode == 0:
        return {"LC_ALL": COMMA_LOCALE, "LOCPATH": str(target.parent)}
    print(f"{COMMA_LOCALE} cannot be had: the locale is C")
    return {"LC_ALL": "C"}


def as_nobody(environment):
    """Return the command that starts another one as nobody, who may read this interpreter."""
    if os.geteuid() != 0:
        return []
    plain = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    reading = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    child = "subprocess.run([sys.executable, '-c', ''], check=True)"
    importing = [sys.executable, "-c", f"import subprocess, sys, numpy, sevenhills; {child}"]
    for command in ([*plain, "--"], [*plain, *reading, "--"]):
        with contextlib.suppress(FileNotFoundError):
            tried = [*command, *importing]
            if subprocess.run(tried, env=environment, capture_output=True).returncode == 0:
                return command
    print("setpriv is missing or fails: the user is root")
    return []


@contextlib.contextmanager
def busy(number):
    """Keep some cores busy."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run(machine, folder, arguments):
    """Run the quick tests on a machine, print what they say, and return whether all passed."""
    print(f"\n{machine.name}", flush=True)
    place = folder / ("nobody" if machine.is_nobody else "own")
    place.mkdir()
    environment = {**os.environ, **machine.variables}
    environment |= {
        "TMPDIR": str(place),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(place / "hypothesis"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = []
    if machine.is_nobody:
        environment = {k: v for k, v in environment.items() if k not in ("HOME", "USER", "LOGNAME")}
        command = as_nobody(environment)
        if command:
            os.chown(place, NOBODY, NOBODY)
    else:
        environment["NUMBA_CACHE_DIR"] = str(place)
    start = {"env": environment, "umask": machine.umask, "text": True, "stdin": subprocess.DEVNULL}
    probe = [*command, sys.executable, "-c", PROBE]
    found = json.loads(subprocess.run(probe, check=True, stdout=subprocess.PIPE, **start).stdout)
    print("  " + ", ".join(f"{name} {value}" for name, value in found.items()), flush=True)
    tests = [*command, sys.executable, "-m", "tests.elsewhere", "--here", *arguments]
    with busy(machine.n_busy):
        done = subprocess.run(
            tests, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **start
        )
    if done.returncode:
        print(done.stdout, f"pytest ended with {done.returncode}", sep="\n", flush=True)
    else:  # libraries may print more at the exit
        print("  " + re.findall(r".*\d passed.*", done.stdout)[-1], flush=True)
    return done.returncode == 0


def main(arguments):
    if arguments[:1] == ["--here"]:
        import pytest

        # As libraries with a window do; errors of the system stay in English, which tests look for.
        locale.setlocale(locale.LC_ALL, "")
        locale.setlocale(locale.LC_MESSAGES, "C")
        return pytest.main(["--quick", "-p", "no:cacheprovider", "-q", *arguments[1:]])
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # other users have their folders in it
        passed = [run(machine, Path(folder), arguments) for machine in machines(Path(folder))]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
