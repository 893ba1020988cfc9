"""Helpers for scripts that generate tables of the documentation between two marks of a page."""

import argparse
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def marks(name, script):
    return f"<!-- {name}: scripts/dev/{script}.py -->", f"<!-- end of {name} -->"


def with_lines(text, name, lines, script):
    """The text with the lines between the marks `name` replaced. @param script  the script that writes them. @throws ValueError
    unless the marks occur once"""
    begin, end = marks(name, script)
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"expected one line '{begin}' and one '{end}'")
    before, rest = text.split(begin)
    return before + begin + "\n" + "".join(line + "\n" for line in lines) + end + rest.split(end)[1]


def code(words):
    return ", ".join(f"`{word}`" for word in words)


def answer(program, question):
    """The JSON that the program prints. @throws subprocess.CalledProcessError if it fails"""
    return json.loads(subprocess.run([program, question], check=True, capture_output=True, text=True).stdout)


def update(doc, contents, arguments=None):
    """Writes the files, or with --check reports which differ. @param contents  function from the path of terngrad_train to
    {path: text}. @returns the exit code"""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bin/terngrad_train", help="terngrad_train")
    parser.add_argument("--check", action="store_true", help="writes nothing; exit code 1 if a file differs")
    options = parser.parse_args(arguments)
    stale = [(path, text) for path, text in contents(options.program).items()
             if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path, text in stale:
        print(f"{path.relative_to(ROOT)}: {'differs from what the program says' if options.check else 'written'}")
        if not options.check:
            path.write_text(text, encoding="utf-8")
    return 1 if stale and options.check else 0
