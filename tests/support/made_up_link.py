"""Running a bench script in the test's own process, on a link that is made up."""

import contextlib
import io
import sys
from unittest import mock


class MadeUpLink:
    """For tests that have `module`, the script; `folder`, with programs and scripts that stand for real ones; and `words`, its
    name and the options that all runs have."""

    def run_script(self, *arguments):
        """(exit code, output)"""
        output = io.StringIO()
        with mock.patch.object(sys, "argv", [*self.words(), *arguments]), contextlib.redirect_stdout(output), \
                contextlib.redirect_stderr(output):
            try:
                code = self.module.main(self.module.parse())
            except SystemExit as end:
                code = end.code
        return code, output.getvalue()

    def calls(self):
        """What slow_link.sh was called with, a line for each call."""
        file = self.folder / "scripts" / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def write_program(self, path, text):
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
