"""The command line.  `main` says what is missing when the extra is not installed."""

import sys


def main() -> None:
    """Entry point of the `pyhudi` command."""
    try:
        from pyhudi.cli.app import run
    except ImportError as missing:
        if missing.name not in ("click", "rich"):
            raise
        sys.exit(f"the command line needs {missing.name}: pip install 'pyhudi[cli]'")
    run()
