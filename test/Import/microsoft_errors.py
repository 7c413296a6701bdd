"""Grouped attention and quantized ops that the importer must reject, and the error of each."""

HEADS = "num_heads = 4, kv_num_heads = 2"
PACKED = "float[b, s, 64] x, int32[b] l, int32[1] t"
CACHES = PACKED + ", float[b, 2, p, 8] k, float[b, 2, p, 8] v"


def case(attributes, inputs, message, ports=PACKED, initializers=""):
    return (
        21,
        ports,
        initializers,
        f"com.microsoft.GroupQueryAttention <{attributes}> ({inputs})",
        message,
    )


BITS = "float[b, 32] x, uint8[6, 2, 8] w, float[6, 2] c"
SIZES = "K = 32, N = 6, block_size = 16"


def matmul(attributes, inputs, message, ports=BITS):
    return 21, ports, "", f"com.microsoft.MatMulNBits <{attributes}> ({inputs})", message


NUMBERS = "float[1] c = {nan}, float[1] i = {inf}, float[1] o = {1}, float[1] e = {0}"


def with_numbers(node, message, domain="com.microsoft."):
    return 21, "float[b, 16] x, uint8[1, 1, 8] w", NUMBERS, domain + node, message


# Each entry: version of ai.onnx, inputs, initializers, node, its error.
NODES = [
    case(
        "num_heads = 3, kv_num_heads = 2",
        "x, , , , , l, t",
        "has num_heads = 3 and kv_num_heads = 2; the first must be a multiple of the second, and "
        "both at least 1",
    ),
    case(
        "num_heads = 5, kv_num_heads = 1",
        "x, , , , , l, t",
        "has packed queries, keys and values of width `64`, which must be a known multiple of 7 "
        "heads",
    ),
    case(
        HEADS + ', k_quant_type = "PER_TENSOR", kv_cache_bit_width = 8',
        "x, , , , , l, t",
        "has a quantized cache (k_quant_type = PER_TENSOR, v_quant_type = NONE, "
        "kv_cache_bit_width = 8), which tpc does not have; export the model with a cache of floats",
    ),
    case(
        HEADS + ", local_window_size = 0",
        "x, , , , , l, t",
        "has local_window_size = 0 and causal = 1; a window needs at least 1 token and "
        "causal = 1; -1 means no window",
    ),
    case(
        HEADS + ", causal = 0, local_window_size = 4",
        "x, , , , , l, t",
        "has local_window_size = 4 and causal = 0; a window needs at least 1 token and "
        "causal = 1; -1 means no window",
    ),
    case(
        HEADS,
        "x, x, , , , l, t",
        "has queries of shape [b, s, 64], keys and no values; it needs [batch, sequence, width], "
        "and both or none (packed)",
    ),
    case(HEADS, "x, , , k, , l, t", "has only one of past keys and past values", CACHES),
    case(
        HEADS,
        "x, , , k, v, l, t",
        "has a past [b, 2, p, 8] of 'f16'; it must be [batch, kv heads, past, size] of 'f32'",
        CACHES.replace("float[b, 2", "float16[b, 2"),
    ),
    case(
        HEADS,
        "x, , , k, v, l, t",
        "has sizes `3` and `2` that should be equal: kv_num_heads and the heads of the past",
        CACHES.replace("[b, 2,", "[b, 3,"),
    ),
    case(
        HEADS,
        "x, , , k, v, l, t",
        "has sizes `3` and `4` that should be equal: total_sequence_length is the number of past "
        "and new tokens",
        "float[b, 1, 64] x, int32[b] l, float[b, 2, 3, 8] k, float[b, 2, 3, 8] v",
        "int32[1] t = {3}",
    ),
    case(
        HEADS,
        "x, , , , , l, t",
        "needs integers as input 5 (seqlens_k and total_sequence_length)",
        PACKED.replace("int32[b] l", "float[b] l"),
    ),
    case(
        HEADS,
        "x, , , , , l, t",
        "has seqlens_k of shape [b, 2]; it must be [batch]",
        PACKED.replace("int32[b] l", "int32[b, 2] l"),
    ),
    case(
        HEADS + ", do_rotary = 1",
        "x, , , , , l, t",
        "rotates heads (do_rotary = 1), but lacks cos_cache or sin_cache",
    ),
    case(
        HEADS + ", do_rotary = 1",
        "x, , , , , l, t, c, c",
        "has cos_cache [9, 5] of 'f32'; it must be [positions, at most 4] of 'f32', and both alike",
        PACKED + ", float[9, 5] c",
    ),
    case(
        HEADS,
        "x, , , , , l, t, , , , , n",
        "has head_sink [4] of 'f16'; it must be [heads] of 'f32'",
        PACKED + ", float16[4] n",
    ),
    case(
        HEADS,
        "x, , , , , l, t, , , , n",
        "has attention_bias [4] of 'f32'; it must be [batch or 1, heads or 1, sequence, past and "
        "new tokens] of 'f32'",
        PACKED + ", float[4] n",
    ),
    case(
        HEADS,
        "x, , , , , l, t, , , , , , , , n",
        "normalizes only one of queries and keys",
        PACKED + ", float[8] n",
    ),
    matmul(
        SIZES,
        "x, w, c, , g",
        "has group indices (g_idx): rows of one block are anywhere in the matrix, so that no split "
        "of rows has whole blocks; quantize the model without reordering of rows (desc_act = "
        "false)",
        BITS + ", int32[32] g",
    ),
    matmul(
        SIZES + ", bits = 3",
        "x, w, c",
        "has bits = 3 and block_size = 16; supported are 2, 4 and 8 bits in blocks of a power of "
        "two from 16 to 2^20",
    ),
    matmul(
        "K = 32, N = 6, block_size = 0",
        "x, w, c",
        "has bits = 4 and block_size = 0; supported are 2, 4 and 8 bits in blocks of a power of "
        "two from 16 to 2^20",
    ),
    matmul(
        "K = 48, N = 6, block_size = 16",
        "x, w, c",
        "has packed weights [6, 2, 8] and scales [6, 2] of 'f32'; K = 48 in blocks of 16 needs [6, "
        "3, 8] and [6, 3] of 'f32'",
    ),
    matmul(
        SIZES,
        "x, w, c",
        "has packed weights [6, 2, 8] and scales [6, 2] of 'f16'; K = 32 in blocks of 16 needs [6, "
        "2, 8] and [6, 2] of 'f32'",
        BITS.replace("float[6", "float16[6"),
    ),
    matmul(
        SIZES,
        "x, w, c, z",
        "has zero points [6, 2] of 'ui8'; they must be [6, 1] of bytes, or [6, 2] of 'f32'",
        BITS + ", uint8[6, 2] z",
    ),
    matmul(
        SIZES + ", weight_prepacked = 1",
        "x, w, c",
        "has weights in the layout of a GPU (weight_prepacked = 1); store them with "
        "weight_prepacked = 0",
    ),
    matmul(
        "K = 32, N = 6, block_size = 17",
        "x, w, c",
        "has bits = 4 and block_size = 17; supported are 2, 4 and 8 bits in blocks of a power of "
        "two from 16 to 2^20",
    ),
    matmul(
        SIZES,
        "x, w, c",
        "has packed weights [6, 2, 8] and scales [2, 6, 2] of 'f32'; K = 32 in blocks of 16 needs "
        "[6, 2, 8] and [6, 2] of 'f32'",
        BITS.replace("float[6, 2]", "float[2, 6, 2]"),
    ),
    matmul(
        SIZES,
        "x, w, c",
        "has packed weights [6, 2, 7] and scales [6, 2] of 'f32'; K = 32 in blocks of 16 needs [6, "
        "2, 8] and [6, 2] of 'f32'",
        BITS.replace("2, 8]", "2, 7]"),
    ),
    matmul(
        "K = -32, N = 6, block_size = 16",
        "x, w, c",
        "has K = -32 and N = 6; both must be 1 to 2^31",
    ),
    # Numbers of scales and zero points.
    with_numbers(
        "MatMulNBits <K = 16, N = 1, block_size = 16> (x, w, c)",
        "has the scale nan at element 0 of 'c'; scales must be finite",
    ),
    with_numbers(
        "MatMulNBits <K = 16, N = 1, block_size = 16> (x, w, i)",
        "has the scale INF at element 0 of 'i'; scales must be finite",
    ),
    with_numbers(
        "MatMulNBits <K = 16, N = 1, block_size = 16> (x, w, o, i)",
        "has the zero point INF at element 0 of 'i'; zero points must be finite",
    ),
    with_numbers(
        "DequantizeLinear(w, c)", "has the scale nan at element 0 of 'c'; scales must be finite", ""
    ),
    with_numbers(
        "QuantizeLinear(x, e)",
        "has the scale 0 at element 0 of 'e'; numbers are divided by it, so that it must not be 0",
        "",
    ),
    (
        21,
        "float[b, 2] x",
        "int32[2] q = {1, 2}, float s = {1}, int32 z = {3}",
        "DequantizeLinear(q, s, z)",
        "has a zero point other than 0 at element 0 of 'z'; zero points of int32 must be 0",
    ),
]
