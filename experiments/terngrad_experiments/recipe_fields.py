"""Reading one table of a recipe: every key has a kind, and unknown keys are rejected."""

import math
import re

# Excludes the characters of patterns (/ @ ~ * ?).
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
CONFIDENCES = ("A", "B", "C", "D")
REQUIRED = object()


class RecipeError(ValueError):
    """An invalid recipe or pattern; the message is one line that names the file, the cell and the key."""

    def __init__(self, message):
        super().__init__(" ".join(str(message).split()))


def shown(value):
    """A value for error messages, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# Kinds: functions that check a value and return it; their ValueError says what is accepted.

def text(value):
    if not isinstance(value, str) or not value.strip():
        raise ValueError("expected a text")
    return value


def name(value):
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise ValueError("expected a name of a-z, 0-9, '.', '_' and '-'")
    return value


def boolean(value):
    if not isinstance(value, bool):
        raise ValueError("expected true or false")
    return value


def integer(least):
    def check(value):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"expected an integer of at least {least}")
        return value
    return check


def number(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError("expected a finite number")
    return value


def positive(value):
    if number(value) <= 0:
        raise ValueError("expected a number above 0")
    return value


def one_of(choices):
    def check(value):
        if value not in choices or isinstance(value, bool):
            raise ValueError(f"accepted: {', '.join(map(str, choices))}")
        return value
    return check


def list_of(kind, least=1):
    """Kind: a tuple of at least `least` distinct values of a kind."""
    def check(value):
        if not isinstance(value, list) or len(value) < least:
            raise ValueError(f"expected a list of at least {least}")
        items = tuple(map(kind, value))
        if len(set(items)) < len(items):
            raise ValueError("expected a list without repetitions")
        return items
    return check


class Fields:
    """The keys of one table. @throws RecipeError "place: 'key': problem" from every member"""

    def __init__(self, table, place):
        self.place = place
        if not isinstance(table, dict):
            self.fail(None, f"expected a table, found {shown(table)}")
        self._left = dict(table)
        self._taken = []

    def fail(self, key, problem):
        raise RecipeError(f"{self.place}: {problem}" if key is None else f"{self.place}: '{key}': {problem}")

    def take(self, key, kind, default=REQUIRED):
        """The value of `key` as `kind` returns it, or `default` where the key is missing."""
        self._taken.append(key)
        if key not in self._left:
            if default is REQUIRED:
                self.fail(key, "is missing")
            return default
        value = self._left.pop(key)
        try:
            return kind(value)
        except ValueError as error:
            self.fail(key, f"{error}, found {shown(value)}")

    def take_tables(self, key):
        """An array of tables, empty if there is none."""
        self._taken.append(key)
        tables = self._left.pop(key, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            self.fail(key, f"expected [[{key}]]")
        return tables

    def take_table(self, key):
        """A table as a dict, empty if there is none."""
        self._taken.append(key)
        table = self._left.pop(key, {})
        if not isinstance(table, dict):
            self.fail(key, f"expected a table, found {shown(table)}")
        return table

    def finish(self):
        """@throws RecipeError for keys that were not taken"""
        if self._left:
            self.fail(next(iter(self._left)), f"is unknown; accepted: {', '.join(self._taken)}")
