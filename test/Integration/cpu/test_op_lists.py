"""Op type checks outside interfaces: only those that tools/op_lists.toml justifies."""

import re
import tomllib

from harness import TOP

MANY = 3  # kinds of ops, in one function
TYPE_CHECKS = re.compile(
    r"\b(?:isa|isa_and_nonnull|isa_and_present|dyn_cast|dyn_cast_or_null|dyn_cast_if_present|Case)"
    r"\s*<([^<>()]*)>"
)


def dialect_ops():
    return {
        op
        for path in (TOP / "include/tpc/Dialect").glob("*.td")
        for op in re.findall(r"^def Tpc_(\w+Op)\b", path.read_text(), re.M)
    }


def functions(text):
    """Returns the functions of a file and the methods of its classes, approximately: text up to a
    line with a single brace.
    """
    return re.split(r"\n(?=\}|  \}\n)", re.sub(r"//.*", "", text))


def kinds(text, ops):
    return {name.strip() for names in TYPE_CHECKS.findall(text) for name in names.split(",")} & ops


def derive():
    ops = dialect_ops()
    assert len(ops) > 50
    return {
        str(path.relative_to(TOP / "lib"))
        for path in (TOP / "lib").rglob("*.cpp")
        if any(len(kinds(function, ops)) >= MANY for function in functions(path.read_text()))
    }


def read_declared():
    lists = tomllib.loads((TOP / "tools" / "op_lists.toml").read_text())["list"]
    return [name for entry in lists for name in entry["files"]]


def test_chains_are_found():
    ops = {"AddOp", "SubOp", "MulOp"}
    chain = (
        "bool f(Operation *op) {\n  if (isa<AddOp>(op))\n    return false;\n  return isa<SubOp,"
        " MulOp>(op);\n}\n"
    )
    assert [kinds(function, ops) for function in functions("\n" + chain)][0] == ops
    assert kinds("// isa<AddOp>(op)\n".join(functions("// isa<AddOp>(op)\n")), ops) == set()
    assert all(
        len(kinds(function, ops)) < MANY
        for function in functions(chain.replace("isa<AddOp>", "g") + chain.replace("SubOp, ", ""))
    )


def test_lists_of_ops():
    declared = read_declared()
    assert len(declared) == len(set(declared)), "named twice"
    assert derive() == set(declared), (
        "lib has other lists of op kinds than tools/op_lists.toml: use an interface, or add an"
        " entry with the reason"
    )
