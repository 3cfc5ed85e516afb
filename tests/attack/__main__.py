"""Attack the library: damaged files, random command lines, random calls, killed runs.  See `attack.py`."""

from tests.attack.attack import main

main()
