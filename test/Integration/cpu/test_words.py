"""Prose rules: titles, comment openings, words, include guards, lengths of files and lines.

Run as a program, it lists the violations below the given paths (default: the whole repository):

    .venv/bin/python test/Integration/cpu/test_words.py [PATH ...]
"""

import re
import subprocess
import sys
from collections import namedtuple
from functools import cache
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
SOURCES = (".cpp", ".h", ".c", ".td", ".py")
ROOMS = ("include", "lib", "runtime", "tools", "python", "test")
PROSE_ROOMS = (
    "include",
    "lib",
    "runtime",
    "tools",
    "python",
    "test",
    "docs",
    "README.md",
    "CONTRIBUTING.md",
)
MAX_LINES, MAX_COLUMNS = 500, 100

# Words that do not begin a comment, and those that do not begin a title.
OPENING = re.compile(r"(What|Who|Whom|Whose|Whoever|Whatever|Which|How|Of|Those|That which)\b")
TITLE = re.compile(r"(What|Who|Whom|Whose|Whoever|Whatever|Which|Where|How|When|Of|Those)\b", re.I)
# Titles that begin with a small letter, except for names such as tpcc, python -m, cuDNN and f16.
SMALL = re.compile(r"(?!tpc|python )[a-z][a-z-]*(?=[ ,:]|$)")

# Word or phrase (a regular expression), and the field's word for it.
WORDS = {
    r"nobody|no-one|no one": "no op, no caller, nothing",
    r"who|whom|whoever|whomever": "that, the caller, the pass (code is not a person)",
    r"hears|is told|are told|was told|were told": "receives",
    r"is asked|are asked|was asked|were asked": "is queried",
    r"forgives?|forgiving|forgiven": "exempts",
    r"believes?|wishes|dislikes?|thinks": "requires, assumes",
    r"anew": "again",
    r"lessened": "reduced",
    r"unkind": "adversarial",
    r"in vain": "without success, index out of bounds",
    r"dear|dearer|dearest": "expensive",
    r"as far as (these|those|they) last": "while they suffice",
    r"beside": "next to, in addition to",
    r"computed again": "rematerialized, recomputed",
    r"taken out|put back": "hoisted, restored",
    r"stands? in|lies in": "is in, resides in",
    r"said once": "single source of truth",
    r"fullest": "with the most",
    r"looked up in vain": "index out of bounds",
    r"written out": "decomposed, expanded",
    r"standstills?": "hang, deadlock",
    r"patience": "timeout",
}
BANNED = re.compile(r"\b(?:%s)\b" % "|".join(f"(?:{word})" for word in WORDS), re.I)

# (path prefix, word, reason): places where a banned word is the right one.
ALLOWED_WORDS = [
    ("test/Integration/cpu/test_words.py", "", "the list itself"),
]
# Path: why the file is longer than MAX_LINES.
ALLOWED_LENGTHS = {}
# Path prefix: why its lines may be longer than MAX_COLUMNS.
ALLOWED_COLUMNS = {}

Finding = namedtuple("Finding", "path line text")


@cache
def tracked():
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=TOP, capture_output=True, text=True, check=True
    )
    return [name for name in names.stdout.split("\0") if name and (TOP / name).is_file()]


def files(rooms, suffixes):
    found = [n for n in tracked() if n.endswith(suffixes) and n.startswith(tuple(rooms))]
    assert found, f"no {suffixes} in {rooms}"
    return found


@cache
def lines_of(name):
    return (TOP / name).read_text(encoding="utf-8").split("\n")


def title_of(name):
    """Returns the text after `NAME - ` on the first line, or the first line of a docstring."""
    for line in lines_of(name)[:3]:
        if match := re.match(r"(?://|/\*)===-+ *\S+ - (.*?) *(?:-\*-.*)?-*===(?://|\*/)?", line):
            return match[1].strip(" -*")
        if match := re.match(r'[rf]?"""(.+)', line):
            return match[1]
        if match := re.match(r"/\* (.+)", line):
            return match[1]
    return None


def comments_of(name):
    """Yields (line number, text, opens a comment) for lines of comments and docstrings."""
    is_python = name.endswith(".py")
    inside = was = False
    for number, line in enumerate(lines_of(name), 1):
        text = None
        stripped = line.strip()
        if is_python:
            quotes = stripped.count('"""')
            if inside:
                yield number, stripped.replace('"""', ""), False
                inside = quotes != 1
                continue
            if re.match(r'[rfb]*"""', stripped):
                yield number, re.sub(r'^[rfb]*"""|"""$', "", stripped), True
                inside = quotes == 1
                continue
            text = (
                stripped[1:].strip()
                if stripped.startswith("#") and not stripped.startswith("#!")
                else None
            )
        elif match := re.match(r"(?:///?<?|/\*\*?|\*(?!/))\s?(.*)", stripped):
            text = "" if stripped.startswith("//===") else match[1]
        elif match := re.search(r"\s(///?<?)\s(.*)", line):
            if not re.search(r'"[^"]*//[^"]*"', line):
                yield number, match[2], True
            was = False
            continue
        if text is None:
            was = False
            continue
        yield number, text, not was or not text
        was = bool(text)


def prose_of(name):
    """Yields (line number, text) of prose: pages, comments, docstrings and string literals."""
    if name.endswith(".md"):
        fenced = False
        for number, line in enumerate(lines_of(name), 1):
            if line.lstrip().startswith("```"):
                fenced = not fenced
            elif not fenced:
                yield number, re.sub(r"`[^`]*`", "``", line)
        return
    seen = set()
    for number, text, _ in comments_of(name):
        seen.add(number)
        yield number, re.sub(r"`[^`]*`", "``", text)
    for number, line in enumerate(lines_of(name), 1):
        if number in seen:
            continue
        if name.endswith(".td"):
            yield number, re.sub(r"`[^`]*`", "``", line)
            continue
        for literal in re.findall(r'"((?:[^"\\]|\\.)*)"', line):
            if " " in literal:
                yield number, literal


def is_allowed(name, word):
    return any(
        name.startswith(path) and (not w or w.lower() == word.lower())
        for path, w, _ in ALLOWED_WORDS
    )


def stale_titles(names):
    for name in names:
        title = title_of(name)
        if title and TITLE.match(title):
            yield Finding(name, 1, f"title is not a noun phrase: {title}")


def small_titles(names):
    for name in names:
        title = title_of(name)
        if title and SMALL.match(title):
            yield Finding(name, 1, f"title begins with a small letter: {title}")


def stale_openings(names):
    for name in names:
        for number, text, opens in comments_of(name):
            if opens and OPENING.match(text):
                yield Finding(name, number, f"comment opens with a clause: {text}")


def banned_words(names):
    for name in names:
        for number, text in prose_of(name):
            for match in BANNED.finditer(text):
                if not is_allowed(name, match[0]):
                    better = next(b for w, b in WORDS.items() if re.fullmatch(w, match[0], re.I))
                    yield Finding(name, number, f"'{match[0]}' ({better}): {text.strip()}")


def expected_guard(name):
    """Returns `TPC_` and the path below include/tpc, lib (`LIB_`), runtime (`RT_`), tools, test."""
    for prefix, guard in (
        ("include/tpc/", ""),
        ("runtime/include/tpc/", ""),
        ("lib/", "LIB_"),
        ("runtime/", "RT_"),
        ("tools/", "TOOLS_"),
        ("test/", "TEST_"),
        ("python/", "PYTHON_"),
    ):
        if name.startswith(prefix):
            return "TPC_" + guard + re.sub(r"\W", "_", name[len(prefix) :]).upper()
    return None


def stale_guards(names):
    for name in names:
        guard = re.search(r"^#ifndef (\w+)\n#define \1$", "\n".join(lines_of(name)), re.M)
        if not guard or guard[1] != expected_guard(name):
            yield Finding(
                name,
                1,
                f"include guard {guard[1] if guard else 'is missing'},"
                f" expected {expected_guard(name)}",
            )


def long_files(names):
    for name in names:
        count = len(lines_of(name)) - 1
        if count > MAX_LINES and name not in ALLOWED_LENGTHS:
            yield Finding(name, count, f"{count} lines, of at most {MAX_LINES}")


def long_lines(names):
    for name in names:
        for number, line in enumerate(lines_of(name), 1):
            if (
                len(line) > MAX_COLUMNS
                and not name.startswith(tuple(ALLOWED_COLUMNS))
                and "://" not in line
            ):
                yield Finding(name, number, f"{len(line)} columns, of at most {MAX_COLUMNS}")


CHECKS = {
    stale_titles: lambda: files(ROOMS, SOURCES),
    small_titles: lambda: files(ROOMS, SOURCES),
    stale_openings: lambda: files(ROOMS, SOURCES),
    banned_words: lambda: files(PROSE_ROOMS, SOURCES + (".md",)),
    stale_guards: lambda: files(ROOMS, (".h",)),
    long_files: lambda: files(ROOMS, SOURCES),
    long_lines: lambda: files(ROOMS, (".td", ".py")),
}


def check(rule):
    findings = list(rule(CHECKS[rule]()))
    assert not findings, f"{len(findings)} violations:\n" + "\n".join(
        f"{f.path}:{f.line}: {f.text}" for f in findings
    )


def test_titles():
    check(stale_titles)


def test_capital_letters_of_titles():
    check(small_titles)


def test_comment_openings():
    check(stale_openings)


def test_words():
    check(banned_words)


def test_include_guards():
    check(stale_guards)


def test_file_lengths():
    check(long_files)


def test_line_lengths():
    check(long_lines)


def test_rules_see_violations(tmp_path, monkeypatch):
    """Each rule finds what it is for in a file that has one violation of it."""
    cases = {
        stale_titles: ("a.h", "//===- a.h - What is cut ---===//\n"),
        small_titles: ("a.h", "//===- a.h - chain of ops ---===//\n"),
        stale_openings: ("a.cpp", "int x; ///< Of all ranks\n"),
        banned_words: ("a.py", '"""Sizes.\n\nNobody reads them.\n"""\n'),
        stale_guards: ("lib/a.h", "#ifndef A_H\n#define A_H\n#endif\n"),
        long_files: ("a.cpp", "//\n" * 501),
        long_lines: ("a.td", "x" * 101 + "\n"),
    }
    assert cases.keys() == CHECKS.keys()
    monkeypatch.setattr(sys.modules[__name__], "TOP", tmp_path)
    lines_of.cache_clear()
    for rule, (name, text) in cases.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        assert len(list(rule([name]))) == 1, rule
        (tmp_path / name).unlink()
        lines_of.cache_clear()


def test_allow_lists_are_used():
    """Each entry names a file, and each entry for a length names a file above the limit."""
    for path, _, _ in ALLOWED_WORDS:
        assert (TOP / path).exists(), path
    for path in ALLOWED_LENGTHS:
        assert len(lines_of(path)) - 1 > MAX_LINES, path


def main(paths):
    paths = [str(Path(p).resolve().relative_to(TOP)) for p in paths] or [""]
    total = 0
    for rule, names in CHECKS.items():
        for finding in rule([n for n in names() if n.startswith(tuple(paths))]):
            print(f"{finding.path}:{finding.line}: {finding.text}")
            total += 1
    print(f"{total} violations")
    return total > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
