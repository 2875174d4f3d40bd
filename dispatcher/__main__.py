"""python -m dispatcher: the command line."""

import sys

from dispatcher.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
