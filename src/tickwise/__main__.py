"""`python -m tickwise` is `tickwise`."""

from __future__ import annotations

import sys

from tickwise.cli.main import main

sys.exit(main())
