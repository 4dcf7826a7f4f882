"""Type commands into a real terminal and record the screen.

``python docs/walk.py docs/terminal.md`` types every command below into tmux, waits until the prompt
is back and writes the contents of the screen. tmux and the command ``sevenhills`` must be found.
Long numbers are shortened: their last digits differ between processors.
"""

import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROMPT = "$"
WIDTH = 110
#: Seconds after which a command counts as hung; the first fit compiles.
PATIENCE = 900.0
#: Significant digits of a recorded number.
DIGITS = 7
LONG_NUMBER = re.compile(rf"-?\d+\.\d{{{DIGITS},}}(?:e[-+]?\d+)?")

EMBEDDED = [
    "sevenhills demo",
    "sevenhills fit demo/aniso.csv -o aniso.sevenhills",
    "sevenhills describe aniso.sevenhills",
    "sevenhills score aniso.sevenhills demo/aniso_new.csv | head -4",
    "sevenhills score aniso.sevenhills demo/aniso_new.csv --mean",
    "sevenhills sample aniso.sevenhills -n 3 --seed 0",
    "sevenhills sample aniso.sevenhills -n 1000 --seed 0 -o draws.csv",
    "sevenhills outliers demo/aniso_new.csv --train demo/aniso.csv --estimator rome --rate 0.001",
    'sevenhills compare demo/aniso.csv demo/aniso_new.csv; echo "exit code $?"',
]
MESSY = [
    "head -6 messy.csv",
    "sevenhills fit messy.csv -o messy.sevenhills",
    "sevenhills fit messy.csv -o messy.sevenhills --text missing --duplicates drop --json",
    "sevenhills describe messy.sevenhills",
    "sevenhills score messy.sevenhills messy.csv | head -6",
    "sevenhills score messy.sevenhills messy.csv --missing marginal --mean",
    'sevenhills compare messy.csv later.csv --text missing --tests energy; echo "exit code $?"',
    "cat later.csv | sevenhills outliers - --columns height,weight --text missing --rate 0.02",
]
REPORTS = [
    "sevenhills report aniso.sevenhills --data demo/aniso.csv -o aniso.html",
    "sevenhills report messy.csv -o messy.html",
]
MISTAKES = [
    'sevenhills fit messy.csv -o m.sevenhills --columns heigth; echo "exit code $?"',
    "sevenhills fit messy.csv -o m.sevenhills --missing raise",
    "sevenhills fit nothing.csv -o m.sevenhills",
    "sevenhills score messy.csv messy.csv",
    "sevenhills fit aniso.sevenhills -o m.sevenhills",
    "sevenhills fit messy.csv -o m.sevenhills --estimator gmm --min-std 1",
    "sevenhills compare demo/aniso.csv later.csv",
    "sevenhills sample aniso.sevenhills -n 100000 | head -2",
    "sevenhills fits",
    "sevenhills fit messy.csv -o m.sevenhills --estimator rom",
    "sevenhills fit messy.csv -o demo",
    "sevenhills report aniso.sevenhills --data demo/aniso_new.csv -o aniso.html",
]


def messy_table(n_rows, seed, shift):
    """Return a messy table: words, gaps, a constant, repetitions, decimal commas."""
    rng = random.Random(seed)
    lines = ["name;height;weight;site;pulse;comment"]
    for i in range(n_rows):
        tall = rng.random() < 0.5
        height = rng.gauss(1.84 if tall else 1.66, 0.05) + shift
        weight = rng.gauss(82 if tall else 62, 5)
        pulse = "n/a" if rng.random() < 0.04 else f"{rng.gauss(70, 8):.0f}"
        cell = "tall" if i == 17 else f"{height:.3f}".replace(".", ",")
        lines.append(f'"row; {i + 1}";{cell};"{weight:.1f}";7;{pulse};'.replace(".", ","))
    return "\n".join([*lines, *lines[1:6], ""])


def write_tables(folder):
    """Write the messy tables that the commands read."""
    for name, seed, shift in (("messy.csv", 0, 0.0), ("later.csv", 1, 0.03)):
        Path(folder, name).write_text(messy_table(200, seed, shift), encoding="utf-8-sig")


def shortened(text):
    """Return a text whose long numbers have been rounded."""
    return LONG_NUMBER.sub(lambda found: f"{float(found[0]):.{DIGITS}g}", text)


class Terminal:
    """A shell in tmux, on a server of its own."""

    def __init__(self, folder):
        self.folder = folder
        shell = f"env PS1='{PROMPT} ' HISTFILE= bash --norc --noprofile"
        size = ["-x", str(WIDTH), "-y", "100"]
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, "-c", str(folder), shell)
        self._tmux("set-option", "-g", "history-limit", "5000")
        self._wait()

    def _tmux(self, *arguments):
        command = ["tmux", "-L", "sevenhills-walk", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def _lines(self):
        shown = self._tmux("capture-pane", "-p", "-J", "-S", "-").rstrip().splitlines()
        return [line.rstrip() for line in shown]

    def _wait(self):
        start = time.monotonic()
        while time.monotonic() - start < PATIENCE:
            time.sleep(0.3)
            lines = self._lines()
            if lines and lines[-1] == PROMPT:
                return lines[:-1]
        raise TimeoutError("\n".join(self._lines()))

    def run(self, command):
        """Type a command and return the screen when it is done."""
        self._tmux("send-keys", "-R")
        self._tmux("clear-history")
        self._tmux("send-keys", "-l", command)
        self._tmux("send-keys", "Enter")
        time.sleep(0.5)
        return [f"{PROMPT} {command}", *self._without_the_command(self._wait(), command)]

    @staticmethod
    def _without_the_command(lines, command):
        """Leave out the lines that the command itself takes on the screen."""
        for n_lines in range(1, len(lines) + 1):
            if "".join(lines[:n_lines]).replace(" ", "").endswith(command.replace(" ", "")):
                return lines[n_lines:]
        return lines

    def close(self):
        self._tmux("kill-server")


def record(terminal):
    """Return the page, section by section."""
    yield "# The command line, recorded"
    yield (
        "This page shows the output of the commands of [the command line](cli.md): a first model, "
        "a messy table, reports and mistakes. `make walk` types the commands into a terminal and "
        "records the screen, with remarks on standard error. Long numbers are shortened to "
        f"{DIGITS} digits here; the commands write all digits."
    )
    sections = {
        "The embedded data": EMBEDDED,
        "A messy table": MESSY,
        "Reports": REPORTS,
        "Mistakes": MISTAKES,
    }
    for title, commands in sections.items():
        yield f"## {title}"
        for command in commands:
            print(command, flush=True)
            shown = shortened("\n".join(terminal.run(command)))
            yield f"```text\n{shown}\n```"


def main():
    target = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        write_tables(folder)
        terminal = Terminal(folder)
        try:
            page = "\n\n".join(record(terminal))
        finally:
            terminal.close()
    target.write_text(page + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
