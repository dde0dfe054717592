"""Print docs/options.md."""

import sys

from pyhudi.options.reference_page import page

sys.stdout.write(page())
