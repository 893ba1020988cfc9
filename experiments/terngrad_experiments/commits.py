"""Selecting results of one commit, so that only options and seeds can explain differences. A build with uncommitted changes
counts as another commit: its name ends in -dirty."""

import collections
import dataclasses

DIRTY = "-dirty"


class CommitError(ValueError):
    """A commit without results, or an ambiguous one."""


def commit_of(result):
    """The commit of a result's build, "0123456789ab" or "0123456789ab-dirty"."""
    return result["commit"] + (DIRTY if result.get("dirty") else "")


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """Number of omitted results of other commits, by commit."""

    commit: str | None
    counts: dict = dataclasses.field(hash=False)

    def __str__(self):
        total = sum(self.counts.values())
        if not total:
            return f"same commit: all results are of {self.commit}"
        others = ", ".join(f"{commit} ({count})" for commit, count in self.counts.items())
        return f"same commit: of {self.commit} alone; {total} result{'s' if total > 1 else ''} left out, of {others}"


def time_of(result):
    """Time of recording. Lines of earlier versions lack it: they count by the start of their run, else as before all others."""
    return result.get("recorded") or result.get("started") or ""


def newest(results):
    """The commit of the last recorded run, None without runs. At equal times the later line counts."""
    if not results:
        return None
    index = max(range(len(results)), key=lambda i: (time_of(results[i]), i))
    return commit_of(results[index])


def named(results, text):
    """The recorded commit that begins with `text`, or with which `text` begins; a dirty build if `text` ends in -dirty.

    @throws CommitError if there is none or several"""
    commits = dict.fromkeys(commit_of(result) for result in results)
    start, is_dirty = text.removesuffix(DIRTY), text.endswith(DIRTY)
    found = []
    for commit in commits:
        own = commit.removesuffix(DIRTY)
        if commit.endswith(DIRTY) == is_dirty and (own.startswith(start) or start.startswith(own)):
            found.append(commit)
    if len(found) != 1:
        what = f"is the start of {', '.join(found)}" if found else f"no result is of it; there are {', '.join(commits) or 'none'}"
        raise CommitError(f"--same_commit {text}: {what}")
    return found[0]


def of_one(results, text=""):
    """(results, LeftOut) of one commit: the newest or the one that `text` names. @throws CommitError"""
    commit = named(results, text) if text else newest(results)
    counts = collections.Counter(commit_of(result) for result in results if commit_of(result) != commit)
    return [result for result in results if commit_of(result) == commit], LeftOut(commit, dict(counts))
