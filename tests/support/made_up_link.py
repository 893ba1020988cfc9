"""Runs a bench script in the test's process, with a simulated link."""

import contextlib
import io
import sys
from unittest import mock


class MadeUpLink:
    """Mix-in for test cases that have `module` (the script), `folder` (with stand-ins for programs and scripts) and
    `words()` (the script's name and the common options)."""

    def run_script(self, *arguments):
        """Returns (exit code, output)."""
        output = io.StringIO()
        with mock.patch.object(sys, "argv", [*self.words(), *arguments]), contextlib.redirect_stdout(output), \
                contextlib.redirect_stderr(output):
            try:
                code = self.module.main(self.module.parse())
            except SystemExit as end:
                code = end.code
        return code, output.getvalue()

    def calls(self):
        """Arguments of each call of slow_link.sh."""
        file = self.folder / "scripts" / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def write_program(self, path, text):
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
