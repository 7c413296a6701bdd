"""Single nodes that the importer must reject, and the error of each."""

NOT_A_BOX = (
    "assigns to positions that depend on values, or that are not a box of its operand (x[2:n] = y"
    " is one): coordinate %d of its indices is not known while importing. tpc assigns whole rows,"
    " or at most 64 positions. Export the model again without it, for instance with another"
    " attention implementation"
)

# Each entry: version of ai.onnx, inputs, initializers, nodes, error. The last node computes the
# result y and has the error.
NODES = [
    # Operands.
    (17, "float[4] x", "", "Add(x)", "lacks input 1"),
    (
        17,
        "float[4] x, double[4] u",
        "",
        "Add(x, u)",
        "has operands of types 'f32' and 'f64'; they must be the same",
    ),
    (17, "bool[4] x", "", "Add(x, x)", "has an operand of type 'i1'; it must be a number"),
    (17, "float[4] x", "", "And(x, x)", "has an operand of type 'f32'; it must be boolean"),
    (17, "bool[4] x", "", "Neg(x)", "needs numbers, but has booleans"),
    (18, "float[4] x", "", "BitwiseAnd(x, x)", "needs integers, but has 'f32'"),
    (
        18,
        "int32[4] x, int64[4] u",
        "",
        "BitwiseOr(x, u)",
        "has operands of types 'i32' and 'i64'; they must be the same",
    ),
    (
        18,
        "uint8[4] x",
        "",
        'BitShift<direction = "UP">(x, x)',
        "has direction 'UP'; it must be LEFT or RIGHT",
    ),
    (
        18,
        "uint8[4] x, uint8[4] u",
        "",
        'BitShift<direction = "LEFT">(x, u)',
        "has a shift amount ('u') that is computed from data; tpc needs a shift amount to follow"
        " from constants and from the sizes of the inputs; --fix-input=u=VALUE makes it a constant",
    ),
    (17, "bool[4] x", "", "Max(x, x)", "needs numbers, but has booleans"),
    (17, "bool[4] x", "", "Mod(x, x)", "needs numbers, but has booleans"),
    (17, "int64[4] x", "", "Exp(x)", "needs a floating-point input, but 'x' has elements 'i64'"),
    (17, "float[4] x", "", "Sum(x, , x)", "lacks input 1"),
    (17, "int64[4] x", "", "Mean(x, x)", "needs floating-point operands"),
    (17, "float[4] x", "", "Mod(x, x)", "needs fmod = 1 for floating-point operands"),
    (
        6,
        "float[4] x, float[2] u",
        "",
        "Add <broadcast = 1, axis = 3> (x, u)",
        "has axis 3, but its operands have 1 and 1 dimensions",
    ),
    (
        6,
        "float x, float[1, 1] u",
        "",
        "Add <broadcast = 1, axis = 9223372036854775807> (x, u)",
        "has axis 9223372036854775807, but its operands have 0 and 2 dimensions",
    ),
    (
        17,
        "float[2] x, float[3] u",
        "",
        "Add(x, u)",
        "has sizes `2` and `3` that should be equal: operands [2] and [3] do not broadcast",
    ),
    # Operands whose values must be known to the importer.
    (
        17,
        "float[b, 4] x, float[2] s",
        "",
        "Reshape(x, s)",
        "needs a vector of integers for shape, but 's' is [2] of 'f32'",
    ),
    (
        17,
        "float[b, 4] x",
        "int64[1, 2] s = {1, 4}",
        "Reshape(x, s)",
        "needs a vector of integers for shape, but 's' is [1, 2] of 'i64'",
    ),
    (
        17,
        "float[b, 4] x",
        "",
        "s = Shape <start = 0, end = 1> (x)\n[n] y = ReduceSum(x, s)",
        "needs constant axes, but has `b`",
    ),
    # Sizes.
    (
        17,
        "float[1099511627776, 1] x, float[1, 1099511627776] w",
        "",
        "MatMul(x, w)",
        "computes a value that is too large for any machine, [1099511627776, 1099511627776]",
    ),
    (
        17,
        "float[4] x",
        "int64 zero = {0}, int64[20] axes = {%s}" % ", ".join(map(str, range(20))),
        "a = Unsqueeze(zero, axes)\n[n] y = Unsqueeze(a, axes)",
        "has a result that has 40 dimensions; at most 32 are supported",
    ),
    (
        17,
        'float["%s", "%s"] x'
        % (" + ".join(f"a{i}" for i in range(9)), " + ".join(f"c{i}" for i in range(9))),
        "",
        "Size(x)",
        "computes a size whose expression is too complex",
    ),
    (
        17,
        ", ".join(f"float[s{i}] x{i}" for i in range(70)),
        "",
        "Concat <axis = 0> (%s)" % ", ".join(f"x{i}" for i in range(70)),
        "joins too many sizes: their sum is too complex",
    ),
    (
        17,
        "float[4] x",
        "int64[1024] v0 = {%s}" % ", ".join(["0"] * 1024),
        "\n".join(f"[n] v{i + 1} = Identity(v{i})" for i in range(4000))
        + "\n[n] y = Identity(v4000)",
        "is one of too many nodes that compute shapes",
    ),
    # Results.
    (
        17,
        "float[4] x",
        "",
        "z, y = Neg(x)",
        "has a use of its output 'y', which the op does not define",
    ),
    # Activations.
    (
        20,
        "float[4] x",
        "",
        'Gelu <approximate = "erf"> (x)',
        "has approximate = 'erf'; it must be none or tanh",
    ),
    (
        17,
        "float[4] x",
        "float[1] low = {0.5}",
        "Clip(x, low)",
        "needs a scalar of type 'f32' for input 1",
    ),
    (
        17,
        "float[4] x",
        "double high = {0.5}",
        "Clip(x, , high)",
        "needs a scalar of type 'f32' for input 2",
    ),
    (
        6,
        "int64[4] x",
        "",
        "Clip <min = 0.5> (x)",
        "needs a floating-point input, but 'x' has elements 'i64'",
    ),
    # Attention.
    (
        23,
        "float[b, 4] x",
        "",
        "Attention(x, x, x)",
        "needs an input with 3 or 4 dimensions, but has [b, 4]",
    ),
    (
        23,
        "float[b, s, 12] q, float[b, s, 8] k",
        "",
        "Attention <q_num_heads = 3, kv_num_heads = 2> (q, k, k)",
        (
            "has 3 query heads and 2 key heads of size 4; all must be known, and the first a"
            " multiple of the second"
        ),
    ),
    (
        23,
        "float[b, s, 12] q, int64[s, s] m",
        "",
        "Attention <q_num_heads = 3, kv_num_heads = 3> (q, q, q, m)",
        "has a mask of 'i64'; it must be boolean or of the type of the queries",
    ),
    (
        23,
        "float[b, s, 12] q, float[1, 1, 1, s, s] m",
        "",
        "Attention <q_num_heads = 3, kv_num_heads = 3> (q, q, q, m)",
        "has a mask of 5 dimensions; it must have at most 4",
    ),
    (
        17,
        "float[b, s, 12] x, float[12, 36] w",
        "",
        "com.microsoft.Attention <num_heads = 3, do_rotary = 1> (x, w)",
        "applies rotary embeddings itself (do_rotary = 1), which is not supported",
    ),
    (
        17,
        "float[b, 2, s, 8] x, int64[b, s] p, float[9, 2, 4] t",
        "",
        "com.microsoft.RotaryEmbedding(x, p, t, t)",
        "needs tables of two dimensions and integer positions",
    ),
    (
        17,
        "float[b, 2, s, 8] x, int64[1, b, s] p, float[9, 4] t",
        "",
        "com.microsoft.RotaryEmbedding(x, p, t, t)",
        "needs positions of shape [batch, sequence]",
    ),
    (
        23,
        "float[b, 2, s, 8] x, float[9, 4] t",
        "",
        "RotaryEmbedding(x, t, t)",
        "has tables of shape [9, 4]; they must be [batch, sequence, size] of the element "
        "type of the input",
    ),
    (
        23,
        "float[b, 2, s, 4] x, float[b, s, 4] t",
        "",
        "RotaryEmbedding <rotary_embedding_dim = 8> (x, t, t)",
        "rotates 8 elements of heads of size 4, which are too small",
    ),
    (
        17,
        "float[b, 2, s, 8] x, int64[b, s] p, float[9, 4] t",
        "",
        "com.microsoft.RotaryEmbedding <scale = 2.0> (x, p, t, t)",
        "has a scale other than 1, which tpc does not support",
    ),
    (
        17,
        "float[b, 2, s, 8] x, float[9, 4] t",
        "int64[1, 1] p = {9}",
        "com.microsoft.RotaryEmbedding(x, p, t, t)",
        "takes index 9 of a dimension of size 9",
    ),
    # Gathers.
    (17, "float[4] x", "", "Gather(x, x)", "has indices of type 'f32'; they must be integers"),
    # Scatters.
    (
        18,
        "float[4] x, int64[s, 1] i, float[s] u",
        "",
        'ScatterND <reduction = "add"> (x, i, u)',
        NOT_A_BOX % 0,
    ),
    (18, "float[4, 4] x, int64[s, 2] i, float[s] u", "", "ScatterND(x, i, u)", NOT_A_BOX % 0),
    (18, "float[4, 4] x, int64[65, 2] i, float[65] u", "", "ScatterND(x, i, u)", NOT_A_BOX % 0),
    (
        18,
        "float[4] x, float[65] u",
        f"int64[65, 1] i = {{{', '.join(['1'] * 65)}}}",
        'ScatterND <reduction = "add"> (x, i, u)',
        "assigns more than once to the same positions; tpc does so for at most 64 positions",
    ),
    (
        18,
        "float[4] x, float[2] u",
        "int64[2, 1] i = {3, 4}",
        "ScatterND(x, i, u)",
        (
            "assigns to 2 positions from 3 on of a dimension of size 4: they may be outside of the"
            " dimension"
        ),
    ),
    (
        18,
        "float[4] x, float[1] u",
        "int64[1, 1] i = {-5}",
        "ScatterND(x, i, u)",
        (
            "assigns to 1 positions from -5 on of a dimension of size 4: they may be outside of the"
            " dimension"
        ),
    ),
    (
        18,
        "float[4] x, float[2] u",
        "int64[2, 1] i = {-1, 0}",
        "ScatterND(x, i, u)",
        (
            "assigns to 2 positions from -1 on of a dimension of size 4: they may be outside of the"
            " dimension"
        ),
    ),
    (
        18,
        "float[4] x, float[3] u",
        "int64[2, 1] i = {0, 1}",
        "ScatterND(x, i, u)",
        "has sizes `2` and `3` that should be equal: the numbers of index tuples and of updates",
    ),
    (
        18,
        "float[4] x, float[2, 1] u",
        "int64[2, 1] i = {0, 1}",
        "ScatterND(x, i, u)",
        "assigns [2, 1] where its indices [2, 1] select positions for [2]",
    ),
    (
        18,
        "float[4] x, double[2] u",
        "int64[2, 1] i = {0, 1}",
        "ScatterND(x, i, u)",
        "assigns elements of type 'f64' to a tensor of 'f32'; the types must be the same",
    ),
    (
        18,
        "float[4] x, float[2] u",
        "int64[2, 2] i = {0, 1, 0, 1}",
        "ScatterND(x, i, u)",
        "assigns to positions of [4] by indices [2, 2] of type 'i64'; index tuples must be integers"
        " of a constant length, of at most the rank of the data",
    ),
    (
        18,
        "float[4] x, float[2] u",
        "int64[2, 1] i = {0, 1}",
        'ScatterND <reduction = "xor"> (x, i, u)',
        "has reduction = 'xor'; it must be none, add or mul or, from opset 18 on, max or min",
    ),
    (
        17,
        "float[4] x",
        "",
        "[n] y = NonZero(x)",
        (
            "has a result whose size depends on values of its input, which are not known while"
            " importing"
        ),
    ),
    (
        17,
        "float[b, 4] x, int64[3, 3] i",
        "",
        "GatherND(x, i)",
        "picks from [b, 4] by indices [3, 3] with batch_dims = 0; index tuples must have a "
        "constant length, of at most the rank of the data without batch dimensions",
    ),
    (
        17,
        "float[3, 4] x",
        "int64[2, 2] i = {2, 3, 3, 0}",
        "GatherND(x, i)",
        "takes index 3 of a dimension of size 3",
    ),
    (
        17,
        "float[3, 4] x, int64[3] i",
        "",
        "GatherElements(x, i)",
        "picks from [3, 4] by indices [3] of type 'i64'; indices must be integers, of the "
        "rank of the data",
    ),
    (
        17,
        "float[3, 4] x",
        "int64[1, 1] i = {-5}",
        "GatherElements <axis = 1> (x, i)",
        "takes index -5 of a dimension of size 4",
    ),
    # Convolutions.
    (
        17,
        "float[b, 6, s] x, float[6, 3, 3] w",
        "",
        "Conv <group = 2> (x, w)",
        "has 2 groups; only one group, or one group for each of equally many input and output"
        " channels, is imported",
    ),
    (
        27,
        "float[b, 6, s] x, float[6, 1, 3] w",
        "",
        'CausalConvWithState <activation = "gelu"> (x, w)',
        "has activation 'gelu'; it must be none, silu or swish",
    ),
    (
        27,
        "float[b, 6, s] x, float[6, 1, 3] w, float[6] c, float[b, 6] p",
        "",
        "CausalConvWithState(x, w, c, p)",
        "has a state of shape [b, 6]; it must be [batch, channels, kernel - 1]",
    ),
]
