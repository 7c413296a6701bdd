"""Programs as text, each function of which becomes a kernel: rows of lengths that test models do not have."""

SIZES = """
tpc.pipeline @main(%x: tensor<?x?xf32, #tpc.dist<[n, s]>>) inputs [{tpc.name = "x"}] outputs [] {
  tpc.stage 0 {
  }
}
"""

FORM = """
func.func private @layer_norm_NAME(%x: XX, %s: WW, %b: WW) -> XX attributes {tpc.kernel = 1} {
  %0 = tpc.layer_norm %x, %s bias %b epsilon 1.0e-5 : XX, WW bias WW -> XX
  return %0 : XX
}
func.func private @add_rms_norm_NAME(%x: XX, %y: XX, %s: WW) -> (XX, XX) attributes {tpc.kernel = 1} {
  %0 = tpc.add %x, %y : XX, XX -> XX
  %1 = tpc.rms_norm %0, %s epsilon 1.0e-5 : XX, WW -> XX
  return %0, %1 : XX, XX
}
func.func private @softmax_NAME(%x: XX) -> XX attributes {tpc.kernel = 1} {
  %0 = tpc.softmax %x dim 1 : XX -> XX
  return %0 : XX
}
func.func private @two_softmax_NAME(%x: XX) -> (XX, XX) attributes {tpc.kernel = 1} {
  %0 = tpc.softmax %x dim 1 : XX -> XX
  %1 = tpc.add %0, %x : XX, XX -> XX
  %2 = tpc.softmax %1 dim 1 : XX -> XX
  return %0, %2 : XX, XX
}
func.func private @sum_NAME(%x: XX) -> SS attributes {tpc.kernel = 1} {
  %0 = tpc.reduce sum %x [1] : XX -> SS
  return %0 : SS
}
func.func private @largest_NAME(%x: XX) -> SS attributes {tpc.kernel = 1} {
  %0 = tpc.reduce max %x [1] : XX -> SS
  return %0 : SS
}
func.func private @gelu_NAME(%x: XX, %b: WW) -> XX attributes {tpc.kernel = 1} {
  %0 = tpc.add %x, %b : XX, WW -> XX
  %1 = tpc.gelu none %0 : XX -> XX
  return %1 : XX
}
"""

# Of a warp with and without whole chunks, of blocks of all sizes, longer than registers hold; known when it runs.
LENGTHS = [34, 33, 250, 1024, 1500, 1501, 3000, 5002, None]
NUM_FORMS = FORM.count("func.func")


def make_forms(lengths=LENGTHS, types=("f32", "f16", "bf16")):
    text = SIZES
    for length in lengths:
        for kind in types:
            known, name = (length, length) if length else ("?", "s")
            dist = f"#tpc.dist<[n, {name}]>"
            words = {"XX": f"tensor<?x{known}x{kind}, {dist}>",
                     "WW": f"tensor<{known}x{kind}>" if length else f"tensor<?x{kind}, #tpc.dist<[s]>>",
                     "SS": f"tensor<?x{kind}, #tpc.dist<[n]>>", "NAME": f"{name}_{kind}"}
            form = FORM
            for word, meaning in words.items():
                form = form.replace(word, meaning)
            text += form
    return text
