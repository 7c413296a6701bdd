"""Pages: commands and code run as shown; links, named files and quoted messages exist."""

import os
import re
import shutil
import sys
from functools import cache

import numpy as np
import pytest

from harness import BUILD, TOP, run
from models import COMMITTED

PAGES = [
    path
    for path in [TOP / "README.md", TOP / "CONTRIBUTING.md", *sorted((TOP / "docs").rglob("*.md"))]
    if "do not edit" not in path.read_text().partition("\n")[0]
]
USER_PAGES = [TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))]

# Programs whose command lines in indented blocks are run, for user pages and for other pages.
PROGRAMS = re.compile(r"(tpcc|tpc-[\w-]+|python|mpirun|\./\w+|build/bin/[\w-]+) ")
OTHER_PROGRAMS = re.compile(r"(build/bin/|\./model|mpirun)")
# Commands that are not run: regular expression, reason.
NOT_RUN = {
    r"\./setup ": "builds the project",
    r"python -m (pip|tpc\.export) ": "installs packages, or needs PyTorch",
    r"python -m tpc\.weights ": "writes 500 MB",
    r".*--host a:8": "needs four nodes",
    r".*tp8,pp4,gpus-per-node=8": "compiles for 32 ranks",
}
NOT_RUN_ON_PAGE = {"gpu.md": r"\./model"}  # needs a GPU


def commands(page):
    """Yields (kind, code, printed lines) in the page's order. `kind` is "shell" or, for fenced
    code, "python" with the next fenced text as output. For commands without `$`, only success is
    checked.
    """
    programs = PROGRAMS if page in USER_PAGES else OTHER_PROGRAMS
    text = re.sub(r"\\\n +", "", page.read_text())
    fenced = r"^```(?P<kind>python|text)\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?"
    for match in re.finditer(rf"{fenced}|(?P<block>(?:^    [^\n]*\n)+)", text, re.M | re.S):
        if match["kind"]:
            yield "python", match["code"], (match["printed"] or "").splitlines()
            continue
        block = re.sub(r"^ {4}", "", match["block"], flags=re.M)
        if not block.startswith("$ ") and "\n$ " not in block:
            yield from (
                ("shell", line.strip(), [])
                for line in block.splitlines()
                if programs.match(line.strip())
            )
        for command, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            yield "shell", command, printed.splitlines()


def is_run(page, command):
    patterns = [*NOT_RUN, *(text for name, text in NOT_RUN_ON_PAGE.items() if name == page.name)]
    return not any(re.match(pattern, command) for pattern in patterns)


EXECUTED = [page for page in PAGES if any(True for _ in commands(page))]


def pattern(lines):
    """Returns a regular expression of the lines: `…` is any text; rounding may differ."""
    text = "\n".join(lines).replace("\n…\n", "…")
    text = re.sub(r"(?<=max \|difference\| ).*?\]", "…", text)
    return re.escape(text.replace("…", "\0")).replace("\0", "(?s:.*)")


@pytest.fixture
def folder(tmp_path):
    """A folder with the files that pages assume: the repository's folders, a model, its ids, and
    annotations."""
    for name, target in [
        ("build", BUILD),
        ("test", TOP / "test"),
        ("python", TOP / "python"),
        ("runtime", TOP / "runtime"),
    ]:
        (tmp_path / name).symlink_to(target)
    model = COMMITTED["gpt2-tiny"]
    shutil.copy(model.path, tmp_path / "model.onnx")
    np.save(tmp_path / "ids.npy", model.inputs(2, 7)["input_ids"])
    (tmp_path / "a.txt").write_text(
        "model.lm_head.weight: [tp, -]\n*.attn.c_attn.weight: [-, tp]\n"
    )
    return tmp_path


def test_pages_are_executed():
    assert {page.name for page in EXECUTED} >= {
        "README.md",
        "getting-started.md",
        "generation.md",
        "parallelism.md",
    }
    assert any(kind == "python" for kind, _, _ in commands(TOP / "README.md"))


@pytest.mark.parametrize("page", EXECUTED, ids=lambda path: path.name)
def test_commands(tpcc, mpi, folder, monkeypatch, page):
    monkeypatch.setenv(
        "PATH",
        os.pathsep.join([str(BUILD / "bin"), os.path.dirname(sys.executable), os.environ["PATH"]]),
    )
    monkeypatch.setenv("PYTHONPATH", str(TOP / "python"))
    monkeypatch.setenv("TPC_CACHE", str(folder / "cache"))
    for kind, command, lines in commands(page):
        if kind == "shell" and not is_run(page, command):
            continue
        result = run(
            ["bash", "-c", command] if kind == "shell" else [sys.executable, "-c", command],
            cwd=folder,
        )
        if not any("error" in line for line in lines):
            result.check()
        shown = result.stdout + result.stderr
        assert re.search(pattern(lines), shown), (
            f"{page.name} shows for\n{command}\n" + "\n".join(lines) + f"\nbut it prints\n{shown}"
        )


def test_skipped_commands_exist():
    found = [
        command for page in USER_PAGES for kind, command, _ in commands(page) if kind == "shell"
    ]
    assert not [
        pattern for pattern in NOT_RUN if not any(re.match(pattern, command) for command in found)
    ]


@cache
def sources():
    """Returns the text of all sources, with adjacent string literals joined."""
    files = [
        path
        for top in ("lib", "include", "runtime", "tools", "python")
        for path in (TOP / top).rglob("*")
        if path.suffix in (".cpp", ".h", ".td", ".py")
    ]
    return re.sub(r'"\s*"', "", "\n".join(path.read_text() for path in files))


def test_messages_of_troubleshooting_exist():
    """Checks that three consecutive words of each quoted message are in the sources, except for
    NVIDIA's messages."""
    page = (TOP / "docs" / "troubleshooting.md").read_text()
    messages = [
        message
        for row in re.findall(r"^\| (`.*?) \|", page, re.M)
        for message in re.findall(r"`([^`]+)`", row)
        if not re.search("NCCL …|in connecting|CUDA_ERROR", message)
    ]
    assert len(messages) > 20

    def is_there(message):
        words = re.split(r"[\s…]+", message.strip("…"))
        return any(" ".join(words[i : i + 3]) in sources() for i in range(max(1, len(words) - 2)))

    missing = [message for message in messages if not is_there(message)]
    assert not missing, "troubleshooting.md quotes messages that no source has: " + "; ".join(
        missing
    )


def anchors(page):
    """Returns the anchors of a page's headings, as GitHub spells them."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    }


@pytest.mark.parametrize(
    "page", sorted({*PAGES, *(TOP / "docs").rglob("*.md")}), ids=lambda path: path.name
)
def test_links(page):
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not name.startswith("http") and not (
            target.exists() and (not anchor or anchor in anchors(target))
        ):
            wrong.append(link)
    assert not wrong, f"{page.name} has broken links: {', '.join(wrong)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_lines_fit_and_files_exist(page):
    """Tables may be wider. `X` in a path is any folder; braces and `…` are not checked."""
    text = page.read_text()
    wide = [line for line in text.splitlines() if len(line) > 100 and not line.startswith("|")]
    assert not wide, f"{page.name} has lines of more than 100 columns:\n" + "\n".join(wide)
    paths = re.findall(r"`((?:lib|include|test|tools|runtime|docs|python)/[\w./*-]+)`", text)
    files = re.findall(r"`(\w+\.(?:cpp|h|td|py|mlir|test|md))`", text)
    names = {
        path.name
        for top in ("lib", "include", "runtime", "test", "tools", "docs")
        for path in (TOP / top).rglob("*")
    }
    missing = [path for path in paths if "X" not in path.split("/") and not any(TOP.glob(path))]
    missing += [name for name in files if name not in names]
    assert not missing, f"{page.name} names missing files: {', '.join(missing)}"


def words(page):
    """Returns the number of words; table bars and other marks do not count."""
    return sum(bool(re.search(r"\w", word)) for word in page.read_text().replace("|", " ").split())


def test_sizes():
    """Limits the length of the README, of user and contributor pages, and of all pages by hand."""
    assert len((TOP / "README.md").read_text().splitlines()) <= 120
    for pages, limit in [(USER_PAGES, 1000), ((TOP / "docs" / "dev").glob("*.md"), 1200)]:
        long = {page.name: count for page in pages if (count := words(page)) > limit}
        assert not long, f"pages of more than {limit} words: {long}"
    by_hand = [page for page in PAGES if "reference" not in page.parts]
    assert sum(map(words, by_hand)) <= 35_000, sorted((words(page), page.name) for page in by_hand)


def test_dockerfile_names_what_exists():
    text = (TOP / "tools" / "docker" / "Dockerfile").read_text()
    for source in re.findall(r"^COPY ([^-]\S*) ", text, re.M):
        assert (TOP / source).exists(), source
    usage = run([TOP / "setup", "--help"]).check().stdout
    for command in re.findall(r"\./setup (\w+)", text):
        assert re.search(rf"\./setup \[?{command}\b", usage), command
    for name in re.findall(r"test/Models/stories/(\S+)|stories/(\w+\.onnx)", text):
        assert (TOP / "test" / "Models" / "stories" / "".join(name)).exists(), name


def test_readme_has_the_numbers_of_the_table_of_mutants():
    table = (TOP / "docs" / "reference" / "mutants.md").read_text()
    seeded, rejected = re.search(r"^\| all \| +\| ([0-9,]+) \| ([0-9,]+) \|", table, re.M).groups()
    readme = " ".join((TOP / "README.md").read_text().split())
    assert f"of {seeded} [seeded faults]" in readme and f"reject the {rejected} that" in readme
