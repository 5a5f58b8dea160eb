"""Build hook: the wheel carries the knowledge in its compiled form, so that a start reads no YAML."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledKnowledge(BuildHookInterface):  # type: ignore[type-arg]
    """Fails the build if the sources have a mistake. An editable install compiles for itself."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        try:
            from troubleshooter.knowledge.compile import write_compiled
            from troubleshooter.knowledge.compiled import read_compiled
            from troubleshooter.knowledge.sources import read_sources
        finally:
            sys.path.remove(self.root)
        self._folder = tempfile.TemporaryDirectory()
        write_compiled(read_sources(Path(self.root)), self._folder.name)
        if read_compiled(self._folder.name, self.root) is None:
            raise RuntimeError(
                "the compiled knowledge cannot be read again: do `compile` and `compiled` fit the model?"
            )
        build_data["force_include"][self._folder.name] = "troubleshooter/_shipped/compiled"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if version != "editable":
            self._folder.cleanup()
