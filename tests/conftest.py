import sys
from pathlib import Path

import pytest

from troubleshooter.knowledge import load
from troubleshooter.model import Knowledge

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def knowledge() -> Knowledge:
    return load()
