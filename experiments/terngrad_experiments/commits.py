"""Results of one commit: what a comparison is made of if nothing but options and seeds may explain it."""

import dataclasses


class CommitError(ValueError):
    """A commit that no result is of, or that several could be."""


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """What a choice of one commit left out: the number of results by their commit."""

    commit: str
    counts: dict = dataclasses.field(hash=False)

    def __str__(self):
        total = sum(self.counts.values())
        if not total:
            return f"same commit: all results are of {self.commit}"
        others = ", ".join(f"{commit} ({count})" for commit, count in self.counts.items())
        return f"same commit: of {self.commit} alone; {total} result{'s' if total > 1 else ''} left out, of {others}"


def newest(results):
    """The commit of the run that started last, of equals the one recorded last; None without results. Runs whose start is not
    known were recorded before all others."""
    if not results:
        return None
    index = max(range(len(results)), key=lambda i: (results[i].get("started") or "", i))
    return results[index]["commit"]


def named(results, text):
    """The recorded commit that `text` is the start of, or that starts `text`.

    @throws CommitError without one, and with several"""
    commits = dict.fromkeys(result["commit"] for result in results)
    found = [commit for commit in commits if commit.startswith(text) or text.startswith(commit)]
    if len(found) != 1:
        what = f"is the start of {', '.join(found)}" if found else f"no result is of it; there are {', '.join(commits) or 'none'}"
        raise CommitError(f"--same_commit {text}: {what}")
    return found[0]


def of_one(results, text=""):
    """(results, LeftOut) of one commit, the newest or, with `text`, that. @throws CommitError"""
    commit = named(results, text) if text else newest(results)
    counts = {}
    for result in results:
        if result["commit"] != commit:
            counts[result["commit"]] = counts.get(result["commit"], 0) + 1
    return [result for result in results if result["commit"] == commit], LeftOut(commit or "-", counts)
