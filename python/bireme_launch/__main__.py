"""`python -m bireme_launch`: the same command as `fleetrun`."""

import sys

from . import main

sys.exit(main())
