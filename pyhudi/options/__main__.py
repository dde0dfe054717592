"""Print docs/options.md."""

import sys

from pyhudi.options.page import page

sys.stdout.write(page())
