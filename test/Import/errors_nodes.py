"""Files that the importer must reject, and the error of each: errors_nodes.py [PART-OF-A-MESSAGE]

Each case is a separate file. Its first error must match the expected message: as a prefix for the
nodes of NODES, as a substring for the files of MODELS.
"""

import re
import sys
import tempfile
from pathlib import Path

import onnx.parser
from onnx import TensorProto, helper

import microsoft_errors
import interpret
import node_errors

# Entries are as in node_errors.py.
NODES = node_errors.NODES + microsoft_errors.NODES + [
    # Ranges, triangles, sums.
    (
        17,
        "float[4] x",
        "int64 a = {1}, float d = {1}",
        "Range(a, a, d)",
        "needs three numbers of one type",
    ),
    (17, "float[4] x", "bool a = {1}", "Range(a, a, a)", "needs three numbers of one type"),
    (
        17,
        "float[4] x",
        "int64 a = {1}, int64 d = {0}",
        "Range(a, a, d)",
        "has a delta of `0`; it must be a constant other than 0",
    ),
    (
        17,
        "float[4] x",
        "float a = {1}, float c = {5}, float d = {0}",
        "Range(a, c, d)",
        "has a range with too many elements, or with a delta of 0",
    ),
    (17, "float[4] x", "", "Trilu(x)", "needs a matrix, but has [4]"),
    (17, "float[4, 4] x", "int64[2] k = {1, 2}", "Trilu(x, k)", "needs one number for k"),
    (17, "float[4, 4] x", "int64[2] axes = {0, 1}", "CumSum(x, axes)", "needs one axis"),
    (17, "bool[4] x", "int64 axis = {0}", "CumSum(x, axis)", "needs numbers, but has booleans"),
    # Logic.
    (
        6,
        "int64[4, 4] x, int64[4] u",
        "",
        "Equal <broadcast = 1, axis = 0> (x, u)",
        "broadcasts along an axis, as before operator set 7; convert the model to a newer one",
    ),
    (17, "float[4] x", "", "Not(x)", "needs booleans, but has 'f32'"),
    (
        17,
        "float[4] x, double[4] u, bool[4] c",
        "",
        "Where(c, x, u)",
        "needs a boolean condition and two values of one type, but has 'i1', 'f32' and 'f64'",
    ),
    (
        17,
        "float[4] x",
        "",
        "Where(x, x, x)",
        "needs a boolean condition and two values of one type, but has 'f32', 'f32' and 'f32'",
    ),
    # Matmuls.
    (
        17,
        "float[4, 4] x, float s",
        "",
        "MatMul(x, s)",
        "multiplies a scalar; operands must have at least one dimension",
    ),
    (
        17,
        "float[4, 4] x, double[4, 4] w",
        "",
        "MatMul(x, w)",
        "multiplies matrices of 'f32' and 'f64'; they must have the same numeric type",
    ),
    (
        17,
        "bool[4, 4] x",
        "",
        "MatMul(x, x)",
        "multiplies matrices of 'i1' and 'i1'; they must have the same numeric type",
    ),
    (
        17,
        "float[4, 4] x, double[4] c",
        "",
        "Gemm(x, x, c)",
        "has operands of types 'f32' and 'f64'; they must be the same",
    ),
    (
        17,
        "float[4] x, float[4, 4] w",
        "",
        "com.microsoft.FusedMatMul <transA = 1> (x, w)",
        "transposes a vector; transA and transB need operands of at least two dimensions",
    ),
    # Norms and reductions.
    (
        17,
        "float[b, 4] x, double[4] g",
        "",
        "LayerNormalization(x, g)",
        "normalizes 'f32' by a vector of 'f64'; the types must be the same",
    ),
    (
        17,
        "float x, float[1] g",
        "",
        "com.microsoft.SkipLayerNormalization(x, x, g)",
        "normalizes a scalar",
    ),
    (17, "bool[4] x", "", "ReduceSum(x)", "needs numbers, but has booleans"),
    (17, "bool[4] x", "", "ArgMax(x)", "needs numbers, but has booleans"),
    (
        17,
        "float[4] x",
        "",
        "ReduceProd(x)",
        "computes a product of data; tpc multiplies only sizes",
    ),
    # Other shapes.
    (4, "float[4] x", "", "Reshape(x)", "lacks attribute 'shape'"),
    (
        17,
        "float[b, 4] x",
        "int64[2] s = {-1, -1}",
        "Reshape(x, s)",
        "has -1 twice in its shape [-1, -1]",
    ),
    (
        17,
        "float[b, 4] x",
        "int64[3] s = {0, 4, 0}",
        "Reshape(x, s)",
        "copies dimension 2 of an operand of shape [b, 4], which has no such dimension",
    ),
    (
        17,
        "float[b, 4] x",
        "int64[2] s = {0, -1}",
        "Reshape <allowzero = 1> (x, s)",
        "has both -1 and 0 in its shape [0, -1]",
    ),
    (
        17,
        "float[b, 1] x",
        "",
        "Squeeze(x)",
        (
            "removes all dimensions of size 1 of [b, 1], which is known only when the "
            "program is run; give it axes"
        ),
    ),
    (11, "float[4] x", "", "Unsqueeze(x)", "lacks axes"),
    (
        5,
        "float[4] x",
        "int64[2] two = {2, 2}, int64 axis = {0}",
        "Tile(x, two, axis)",
        "needs one axis and one number",
    ),
    (
        17,
        "float[b, 4] x",
        "int64[1] two = {2}",
        "Tile(x, two)",
        "has 1 repeats for an operand of shape [b, 4]; there must be one for each dimension",
    ),
    (17, "float[b, 4] x", "int64[2] r = {1, -2}", "Tile(x, r)", "has a negative number of repeats"),
    (17, "float[4] x", "", "Tile()", "lacks input 0"),
    # Constants and casts.
    (17, "float[4] x", "", "Constant()", "has no value"),
    (
        17,
        "float[4] x",
        "",
        "Constant <value_ints = [%s]> ()" % ", ".join(["7"] * 1025),
        "has 1025 numbers in an attribute; store them as a tensor, in attribute 'value'",
    ),
    (
        17,
        "float[4] x",
        "",
        "Constant <value_floats = [%s]> ()" % ", ".join(["7.5"] * 1025),
        "has 1025 numbers in an attribute; store them as a tensor, in attribute 'value'",
    ),
    (
        17,
        "float[4] x",
        "",
        "Cast <to = 4294967297> (x)",
        "casts to data type 4294967297, which tpc does not have",
    ),
    # Slices, splits, concatenations, padding.
    (
        17,
        "float[4] x, float[n] z",
        "int64[1] end = {0}, int64[1] step = {-1}",
        "start = Shape(z)\n[n] y = Slice(x, start, end, end, step)",
        "slices backwards from `n` to `0`; both must be constants",
    ),
    (
        17,
        "float[n] x",
        "int64[1] start = {3}, int64[1] end = {1}, int64[1] axis = {0}, int64[1] step = {-1}",
        "Slice(x, start, end, axis, step)",
        "slices a part of a dimension of size `n` backwards; if the size is not constant, "
        "only the entire dimension can be reversed",
    ),
    (9, "float[4] x", "", "Slice <starts = [0]> (x)", "lacks starts or ends"),
    (
        17,
        "float[4] x",
        "int64[1] zero = {0}, int64[1] end = {4}",
        "Slice(x, zero, end, zero, zero)",
        "has a step of 0; it must be neither 0 nor -2^63",
    ),
    (
        18,
        "float[4] x",
        "",
        "y, z = Split <num_outputs = 3> (x)",
        "has num_outputs = 3 and 2 outputs; the numbers must be equal",
    ),
    (
        17,
        "float[4] x",
        "int64[2] parts = {-1, 5}",
        "y, z = Split(x, parts)",
        "has a negative part in [-1, 5]",
    ),
    (17, "float[4] x", "", "Concat(x, x)", "lacks attribute 'axis'"),
    (
        17,
        "float[4] x",
        "",
        "Concat <axis = 9223372036854775807> (x, x)",
        "has axis 9223372036854775807, but its operand has 1 dimensions",
    ),
    (17, "float[4] x", "", "Concat <axis = 0> (x, , x)", "lacks input 1"),
    (9, "float[4] x", "", "Pad(x)", "lacks pads"),
    (
        17,
        "float[4] x",
        "int64[2] pads = {0, -1}",
        "Pad(x, pads)",
        "pads by `-1`, which may be negative; slice instead",
    ),
    # Branches and functions; `two` is a function with two results.
    (
        17,
        "float[4] x",
        "bool yes = {1}",
        "If (yes) <else_branch = no () => (float[4] a) { a = Exp(x) }>",
        "lacks a branch",
    ),
    (
        17,
        "float[4] x",
        "bool yes = {1}",
        (
            "y, z = If (yes) <then_branch = b () => (float[4] a) { a = Exp(x) }, else_branch = c ()"
            " => (float[4] a) { a = Exp(x) }>"
        ),
        "has 2 outputs, but its branch has 1",
    ),
    (
        17,
        "float[4] x",
        "bool yes = {1}",
        (
            "If (yes) <then_branch = b (float[4] i) => (float[4] a) { a = Exp(i) }, else_branch = c"
            " () => (float[4] a) { a = Exp(x) }>"
        ),
        "has a branch with inputs",
    ),
    (
        17,
        "float[4] x",
        "bool yes = {1}",
        "If <axis = 1, then_branch = b () => (float[4] a) { a = Exp(x) }, "
        "else_branch = c () => (float[4] a) { a = Exp(x) }> (yes)",
        "has an attribute 'axis', which the op does not have",
    ),
    (17, "float[4] x", "", "y, z, u = local.two(x)", "has 3 outputs, but function 'two' has 2"),
    (17, "float[4] x", "", "local.same(x, x)", "calls a function with two inputs named 'x'"),
    (17, "float[4] x", "", "local.two(x, x)", "has 2 inputs, but takes at most 1"),
]

FUNCTIONS = """
<domain: "local", opset_import: ["" : 17]> two (x) => (y, z) { y = Neg(x) z = Exp(x) }
<domain: "local", opset_import: ["" : 17]> same (x, x) => (y) { y = Neg(x) }
"""


def node_case(version, inputs, initializers, node, message):
    """Returns the file, and the exact error of its last node."""
    *before, last = node.split("\n")
    last = last.removeprefix("[n] ")
    outputs, called = last.split(" = ", 1) if re.match(r"[\w, ]+ = ", last) else ("y", last)
    lines = "\n".join([*before, f"[n] {outputs} = {called}"])
    op = re.match(r"[\w.]+", called).group()
    domain = op.rpartition(".")[0]
    functions = FUNCTIONS if domain == "local" else ""
    text = f"""<ir_version: 10, opset_import: ["" : {version}, "com.microsoft" : 1, "local" : 1]>
g ({inputs}) => (float[r] y) <{initializers}> {{ {lines} }} {functions}"""
    return text, f"node 'n' ({op}, opset {1 if domain else version}) {message}"


def whole(body, opsets='"" : 17', functions=""):
    return f"<ir_version: 10, opset_import: [{opsets}]>\n{body}\n{functions}"


def edited(edit, body="g (float[4] x) => (float[4] y) { y = Neg(x) }"):
    """Returns a model that the text format cannot express: `body` after `edit`."""
    model = onnx.parser.parse_model(whole(body))
    edit(model.graph)
    return model.SerializeToString()


def nested(levels, innermost):
    """Returns nested Ifs: `innermost` computes a0, a branch around it computes a1, and so on."""
    for i in range(levels):
        innermost = (
            f"a{i + 1} = If (c) <then_branch = t () => (float[4] a{i}) {{ {innermost} }}, "
            f"else_branch = e () => (float[4] z{i}) {{ z{i} = Exp(x) }}>"
        )
    return innermost


MODELS = [
    (
        whole("g (float[4] x) => (float[4] y) { y = Neg(x) }", '"" : 17, "ai.onnx" : 17'),
        "operator set 'ai.onnx' is imported twice",
    ),
    (
        edited(
            lambda graph: graph.initializer.append(
                helper.make_tensor("", TensorProto.FLOAT, [1], [1])
            )
        ),
        "an initializer has no name",
    ),
    (edited(lambda graph: graph.input.append(graph.input[0])), "there are two inputs named 'x'"),
    (
        edited(lambda graph: graph.input.add().type.CopyFrom(graph.input[0].type)),
        "an input has no name",
    ),
    (
        whole("g (seq(float[4]) x) => (float[4] y) { y = Neg(x) }"),
        "input 'x' is not a tensor; tpc has no sequences, maps or optionals",
    ),
    (edited(lambda graph: graph.ClearField("output")), "the graph has no output"),
    (edited(lambda graph: graph.output.append(graph.output[0])), "there are two outputs named 'y'"),
    # Each size is the square of the next.
    (
        whole(
            "g (%s) => (%s) <int64[1] all = {-1}> { %s }"
            % (
                ", ".join(f"float[s{i}] x{i}, float[s{i}, s{i}] y{i}" for i in range(41)),
                ", ".join(f"float[n] z{i}" for i in range(40)),
                "\n".join(
                    f"flat{i} = Reshape(y{i + 1}, all) z{i} = Add(x{i}, flat{i})" for i in range(40)
                ),
            )
        ),
        "has a size whose expression is too complex",
    ),
    # 200 calls of 2,501 nodes each, 2,500 of which are not needed.
    (
        whole(
            "g (float[4] x0) => (float[4] x200) { %s }"
            % "\n".join(f"x{i + 1} = local.f(x{i})" for i in range(200)),
            '"" : 17, "local" : 1',
            '<domain: "local", opset_import: ["" : 17]> f (x) => (y) { y = Neg(x) %s }'
            % "\n".join(f"z{i} = Exp(x)" for i in range(2500)),
        ),
        "the graph has more than 500000 nodes, those of functions counted for each call",
    ),
    # A branch that the caller passes as an attribute is not inspected from the outermost level.
    (
        whole(
            "g (float[4] x) => (float[4] y) { [call] y = local.f <branch = b () => (float[4] a) {"
            " [odd] a = Det(x) }> (x) }",
            '"" : 17, "local" : 1',
            """<domain: "local", opset_import: ["" : 17]> f <branch> (x) => (y) {
             yes = Constant <value = bool {1}> ()
             y = If (yes) <then_branch : graph = @branch, else_branch : graph = @branch> }""",
        ),
        "node 'odd' (Det, opset 17) is not supported",
    ),
    # In one file, branches cannot be nested beyond the importer's limit; with functions between
    # them they can.
    (
        whole(
            "g (float[4] x) => (float[4] a2) <bool c = {1}> { %s }" % nested(2, "a0 = local.f0(x)"),
            '"" : 17, "local" : 1',
            "\n".join(
                '<domain: "local", opset_import: ["" : 17, "local" : 1]> f%d (x) => (a15) { c ='
                " Constant <value = bool {1}> () %s }"
                % (i, nested(15, f"a0 = local.f{i + 1}(x)" if i < 13 else "a0 = Neg(x)"))
                for i in range(14)
            ),
        ),
        "is nested in more than 200 branches and function calls",
    ),
]


def first_error(path, importer):
    try:
        importer.program(path)
    except interpret.ImportFailed as failure:
        return re.search(r"error: (?:loc\(.*\): )?(.*)", str(failure)).group(1)
    return "it is imported"


def check(case, path, importer):
    text, message, exact = case
    data = text if isinstance(text, bytes) else onnx.parser.parse_model(text).SerializeToString()
    path.write_bytes(data)
    output = first_error(path, importer)
    return (
        None
        if (output == message if exact else message in output)
        else f"expected: {message}\n     got: {output}"
    )


def main():
    cases = [(*node_case(*case), True) for case in NODES] + [(*case, False) for case in MODELS]
    cases = [case for case in cases if not sys.argv[1:] or sys.argv[1] in case[1]]
    importer = interpret.Importer()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.onnx"
        faults = [fault for case in cases if (fault := check(case, path, importer))]
    print(
        "\n".join([*faults, f"{len(cases) - len(faults)} refused as expected, {len(faults)} not"])
    )
    sys.exit(bool(faults) or not cases)


if __name__ == "__main__":
    main()
