"""`python -m pyhudi`."""

from pyhudi.cli import main

main()
