"""Which room includes which, and which library links which: what docs/architecture.md declares, and nothing else."""

import collections
import re

from harness import TOP

FOLDERS = ("include/tpc", "lib", "tools", "runtime")
NESTED = ("Transforms", "Import", "Export", "Analysis", "Verify", "transport")


def room_of(path):
    """The room of a file or folder, such as Transforms/Model or runtime/transport/mpi."""
    parts = list(path.relative_to(TOP).parts)
    top = parts.pop(0)
    if top == "tools":
        return "tools"
    if top == "include":
        parts.pop(0)
    folders = parts[:2] if parts[0] in NESTED and len(parts) > 2 else parts[:1]
    return "/".join((["runtime"] if top == "runtime" else []) + folders)


def find(name, includer):
    """The file of the repository that `#include "name"` means; of a generated one, its neighbour (none: it is the includer's own)."""
    roots = [includer.parent, TOP / "include", TOP / "lib", TOP / "runtime", TOP / "runtime" / "include"]
    for root in roots:
        if (root / name).is_file():
            return (root / name).resolve()
    generated = TOP / "include" / name
    return generated if name.endswith(".inc") and "/" in name and generated.parent.is_dir() else None


def derive_includes():
    found = collections.defaultdict(set)
    for folder in FOLDERS:
        for path in sorted((TOP / folder).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".td", ".c") or "test" in path.relative_to(TOP).parts:
                continue
            room = room_of(path)
            found[room]
            for name in re.findall(r'^\s*#?include "([^"]+)"', path.read_text(), re.M):
                target = find(name, path)
                if target and room_of(target) != room:
                    found[room].add(room_of(target))
    return found


def derive_links():
    """Library -> libraries, of the compiler's, by room."""
    rooms, links = {}, {}
    for path in sorted((TOP / "lib").rglob("CMakeLists.txt")):
        if made := re.search(r"tpc_add_library\((\w+)(.*?)\)", path.read_text(), re.S):
            rooms[made[1]] = room_of(path.parent / "x" / "x") if path.parent.parent != TOP / "lib" else path.parent.name
            links[made[1]] = re.findall(r"\bTPC\w+", made[2])
    return {rooms[name]: {rooms[other] for other in others if other in rooms} for name, others in links.items()}


def read_declared(links=False):
    """Room -> what it includes; with `links`, also what its library links besides."""
    page = (TOP / "docs" / "architecture.md").read_text()
    table = page.split("## 6. Rooms")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([\w/]+)` \| ([^|]*) \|", table, re.M)
    return {room: set(re.findall(r"`([\w/]+)`", text if links else text.split(";")[0])) for room, text in rows}


def reach(graph, room, seen=()):
    """All rooms that a room includes, through others as well."""
    assert room not in seen, f"a circle: {' -> '.join([*seen, room])}"
    return set().union(*({other} | reach(graph, other, (*seen, room)) for other in graph[room])) if graph[room] else set()


def test_includes_are_the_declared_ones():
    declared, derived = read_declared(), derive_includes()
    wrong = [f"{room} includes {other}, which is not declared" for room in derived for other in derived[room] - declared.get(room, set())]
    wrong += [f"{room} is not in the table" for room in set(derived) - set(declared)]
    wrong += [f"{room} does not include {other}, although that is declared" for room in declared
              for other in declared[room] - derived.get(room, set())]
    assert not wrong, "\n".join(wrong)


def test_rooms_are_in_order():
    declared = read_declared(links=True)
    for room in declared:
        reach(declared, room)


def test_libraries_link_what_their_rooms_include():
    declared, links = read_declared(links=True), derive_links()
    assert len(links) >= 12
    for room, others in links.items():
        if room != "Driver":  # links all
            assert others <= reach(declared, room), room
