"""The command line.  `main` reports the missing package if the extra is not installed."""

import json
import sys
from typing import NoReturn


def main() -> None:
    """Entry point of the `pyhudi` command."""
    try:
        from pyhudi.cli.app import run
    except ImportError as missing:
        if missing.name not in ("click", "rich"):
            raise
        if sys.argv[1:2] == ["doctor-env"]:
            _report_environment()
        sys.exit(f"the command line requires {missing.name}: pip install 'pyhudi[cli]'")
    run()


def _report_environment() -> NoReturn:
    """`pyhudi doctor-env` where click or rich is missing; exit code 3 if there are problems."""
    from pyhudi.environment import examine_environment

    found = examine_environment()
    print(json.dumps(found.to_dict(), indent=2) if "--json" in sys.argv else found)
    sys.exit(3 if found.problems else 0)
