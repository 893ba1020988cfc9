"""The commands that the driver starts: where they are, of which commit, and which options they know."""

import json
import pathlib
import re
import shutil
import subprocess


class ProgramError(Exception):
    """A command that is missing or does not answer."""


def default_folder(script):
    """Where the commands are: beside an installed driver, else in a build folder of the checkout."""
    script = pathlib.Path(script).resolve()
    root = script.parent.parent
    for folder in (script.parent, root / "build/release/bin", root / "build/ci/bin"):
        if (folder / "terngrad_train").exists():
            return folder
    found = shutil.which("terngrad_train")
    return pathlib.Path(found).parent if found else root / "build/release/bin"


class Programs:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def has(self, name):
        return (self.folder / name).exists()

    def path(self, name):
        """@throws ProgramError if it is not there"""
        path = self.folder / name
        if not self.has(name):
            raise ProgramError(f"{path} is not there; build it, or name its folder with --programs")
        return str(path)

    def output(self, name, *arguments):
        command = [self.path(name), *arguments]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ProgramError(f"{' '.join(command)}: {error}") from None
        if done.returncode != 0:
            raise ProgramError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()[-300:]}")
        return done.stdout

    def commit(self):
        """Of terngrad_train, "unknown" if it does not say."""
        found = re.search(r"\(([0-9a-f]{7,40})(-dirty)?\)", self.output("terngrad_train", "--version"))
        return found.group(1) + (found.group(2) or "") if found else "unknown"

    def options(self, name="terngrad_train"):
        """The names of its options, aliases included."""
        listed = json.loads(self.output(name, "--list_options_json"))["options"]
        return {each for option in listed for each in (option["name"], *option["aliases"])}
