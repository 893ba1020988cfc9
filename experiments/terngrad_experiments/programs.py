"""The commands that the driver starts: folder, commit and options."""

import json
import pathlib
import re
import shutil
import subprocess


class ProgramError(Exception):
    """A command is missing or does not respond."""


def default_folder(script):
    """Folder of the commands: beside an installed driver, else a build folder of the checkout."""
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
        """Path of a command. @throws ProgramError if it does not exist"""
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
        """Commit of terngrad_train, "unknown" if it does not print one."""
        found = re.search(r"\(([0-9a-f]{7,40})(-dirty)?\)", self.output("terngrad_train", "--version"))
        return found.group(1) + (found.group(2) or "") if found else "unknown"

    def options(self, name="terngrad_train"):
        """Names of a command's options, aliases included."""
        listed = json.loads(self.output(name, "--list_options_json"))["options"]
        return {each for option in listed for each in (option["name"], *option["aliases"])}
