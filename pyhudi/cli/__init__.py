"""The command line.  `main` reports the missing package if the extra is not installed."""

import sys


def main() -> None:
    """Entry point of the `pyhudi` command."""
    try:
        from pyhudi.cli.app import run
    except ImportError as missing:
        if missing.name not in ("click", "rich"):
            raise
        sys.exit(f"the command line requires {missing.name}: pip install 'pyhudi[cli]'")
    run()
