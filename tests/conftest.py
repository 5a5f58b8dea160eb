import os
import sys
import tempfile
from pathlib import Path

import pytest

from troubleshooter.knowledge import load
from troubleshooter.model import Knowledge

# The last report of a test run is none of the user's.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="troubleshooter-tests-")
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def knowledge() -> Knowledge:
    return load()
