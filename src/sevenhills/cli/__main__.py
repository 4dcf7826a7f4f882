"""Run the command line as ``python -m sevenhills.cli``."""

from . import main

if __name__ == "__main__":
    main()
