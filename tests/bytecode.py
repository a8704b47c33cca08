"""Tests compile each module once, also where PYTHONDONTWRITEBYTECODE is set.

The tests start hundreds of Python processes. Without bytecode each of them compiles the packages
that it imports, which takes longer than the tests themselves. The bytecode goes to the virtual
environment, so the clone stays as clean as the variable asks for.
"""

import os
import sys

if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.path.join(sys.prefix, "bytecode")  # noqa: PTH118
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
