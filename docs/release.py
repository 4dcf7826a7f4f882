"""Check that a tag is the version of the package: ``python docs/release.py v0.1.0``."""

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "sevenhills" / "__init__.py"


def main():
    version = re.search(r'^__version__ = "(.+)"$', SOURCE.read_text("utf-8"), re.MULTILINE)[1]
    if sys.argv[1:] != [f"v{version}"]:
        sys.exit(f"the tag must be v{version}, got {' '.join(sys.argv[1:]) or 'none'}")


if __name__ == "__main__":
    main()
