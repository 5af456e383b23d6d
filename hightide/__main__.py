"""`python -m hightide` is the same as the `hightide` command."""

import sys

from hightide.cli.entry import main

sys.exit(main())
