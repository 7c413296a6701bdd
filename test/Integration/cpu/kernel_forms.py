"""Textual programs whose functions become kernels, with row lengths that no test model has."""

import re

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
func.func private @add_rms_norm_NAME(%x: XX, %y: XX, %s: WW) -> (XX, XX)
    attributes {tpc.kernel = 1} {
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

# Lengths of rows: for a warp with and without whole chunks, for blocks of all sizes, and too long
# for registers. None is a length that is known only at run time.
LENGTHS = [34, 33, 250, 1024, 1500, 1501, 3000, 5002, None]
NUM_FORMS = FORM.count("func.func")


def make_forms(lengths=LENGTHS, types=("f32", "f16", "bf16")):
    text = SIZES
    for length in lengths:
        for kind in types:
            known, name = (length, length) if length else ("?", "s")
            dist = f"#tpc.dist<[n, {name}]>"
            words = {
                "XX": f"tensor<?x{known}x{kind}, {dist}>",
                "WW": f"tensor<{known}x{kind}>" if length else f"tensor<?x{kind}, #tpc.dist<[s]>>",
                "SS": f"tensor<?x{kind}, #tpc.dist<[n]>>",
                "NAME": f"{name}_{kind}",
            }
            form = FORM
            for word, meaning in words.items():
                form = form.replace(word, meaning)
            text += form
    return text


# Queries, new keys of a cache, and a rotation of only the first elements of a head. The rotated
# elements are a concatenation of both halves.
ROTARY = """
tpc_kernel.func @queries_NAME(%x: memref<?x?x?xTT> of [n, 8, DIM],
    %c: memref<?x?xTT> of [n, DIM], %s: memref<?x?xTT> of [n, DIM])
    -> (%y: memref<?x?x?xTT> of [n, 8, DIM]) {
  %half = tpc_kernel.size HALF
  tpc_kernel.rows (%i, %h) in [n, 8] {
    tpc_kernel.elements (%j) in [DIM] {
      %a = memref.load %x[%i, %h, %j] : memref<?x?x?xTT>
      %cos = memref.load %c[%i, %j] : memref<?x?xTT>
      %b = arith.mulf %a, %cos : f32
      %first = arith.cmpi slt, %j, %half : index
      %t = scf.if %first -> (f32) {
        %from = arith.addi %j, %half : index
        %v = memref.load %x[%i, %h, %from] : memref<?x?x?xTT>
        %m = arith.negf %v : f32
        scf.yield %m : f32
      } else {
        %from = arith.subi %j, %half : index
        %v = memref.load %x[%i, %h, %from] : memref<?x?x?xTT>
        scf.yield %v : f32
      }
      %sin = memref.load %s[%i, %j] : memref<?x?xTT>
      %d = arith.mulf %t, %sin : f32
      %e = arith.addf %b, %d : f32
      memref.store %e, %y[%i, %h, %j] : memref<?x?x?xTT>
    }
  }
}
tpc_kernel.func @keys_NAME(%x: memref<?x?x?xTT> of [n, 8, DIM],
    %c: memref<?x?xTT> of [n, DIM], %s: memref<?x?xTT> of [n, DIM],
    %key: memref<?x?x?xTT> of [8, s, DIM]) -> (%y: memref<?x?x?xTT> of [8, "s + n", DIM]) {
  %half = tpc_kernel.size HALF
  %past = tpc_kernel.size s
  tpc_kernel.rows (%h, %p) in [8, "s + n"] {
    tpc_kernel.elements (%j) in [DIM] {
      %known = arith.cmpi slt, %p, %past : index
      %k = scf.if %known -> (f32) {
        %v = memref.load %key[%h, %p, %j] : memref<?x?x?xTT>
        scf.yield %v : f32
      } else {
        %i = arith.subi %p, %past : index
        %a = memref.load %x[%i, %h, %j] : memref<?x?x?xTT>
        %cos = memref.load %c[%i, %j] : memref<?x?xTT>
        %b = arith.mulf %a, %cos : f32
        %first = arith.cmpi slt, %j, %half : index
        %t = scf.if %first -> (f32) {
          %from = arith.addi %j, %half : index
          %v = memref.load %x[%i, %h, %from] : memref<?x?x?xTT>
          %m = arith.negf %v : f32
          scf.yield %m : f32
        } else {
          %from = arith.subi %j, %half : index
          %v = memref.load %x[%i, %h, %from] : memref<?x?x?xTT>
          scf.yield %v : f32
        }
        %sin = memref.load %s[%i, %j] : memref<?x?xTT>
        %d = arith.mulf %t, %sin : f32
        %e = arith.addf %b, %d : f32
        scf.yield %e : f32
      }
      memref.store %k, %y[%h, %p, %j] : memref<?x?x?xTT>
    }
  }
}
tpc_kernel.func @part_NAME(%x: memref<?x?x?xTT> of [n, 8, TURNED],
    %c: memref<?x?xTT> of [n, TURNED],
    %one: memref<?x?x?xTT> of [n, 8, PART], %two: memref<?x?x?xTT> of [n, 8, PART],
    %s: memref<?x?xTT> of [n, TURNED],
    %rest: memref<?x?x?xTT> of [n, 8, REST]) -> (%y: memref<?x?x?xTT> of [n, 8, DIM]) {
  %turned = tpc_kernel.size TURNED
  %half = tpc_kernel.size PART
  tpc_kernel.rows (%i, %h) in [n, 8] {
    tpc_kernel.elements (%j) in [DIM] {
      %is = arith.cmpi slt, %j, %turned : index
      %k = scf.if %is -> (f32) {
        %a = memref.load %x[%i, %h, %j] : memref<?x?x?xTT>
        %cos = memref.load %c[%i, %j] : memref<?x?xTT>
        %b = arith.mulf %a, %cos : f32
        %first = arith.cmpi slt, %j, %half : index
        %t = scf.if %first -> (f32) {
          %v = memref.load %one[%i, %h, %j] : memref<?x?x?xTT>
          %m = arith.negf %v : f32
          scf.yield %m : f32
        } else {
          %from = arith.subi %j, %half : index
          %v = memref.load %two[%i, %h, %from] : memref<?x?x?xTT>
          scf.yield %v : f32
        }
        %sin = memref.load %s[%i, %j] : memref<?x?xTT>
        %d = arith.mulf %t, %sin : f32
        %e = arith.addf %b, %d : f32
        scf.yield %e : f32
      } else {
        %from = arith.subi %j, %turned : index
        %v = memref.load %rest[%i, %h, %from] : memref<?x?x?xTT>
        scf.yield %v : f32
      }
      memref.store %k, %y[%i, %h, %j] : memref<?x?x?xTT>
    }
  }
}
"""
# A row has elements of several heads, in two groups of different numbers of heads.
ROTARY_OF_HEADS = """
    tpc_kernel.elements (%h, %j) in [HEADS, DIM] {
      %a = memref.load %FROM[%i, %h, %j] : memref<?x?x?xTT>
      %cos = memref.load %c[%i, %j] : memref<?x?xTT>
      %b = arith.mulf %a, %cos : f32
      %first = arith.cmpi slt, %j, %half : index
      %t = scf.if %first -> (f32) {
        %from = arith.addi %j, %half : index
        %v = memref.load %FROM[%i, %h, %from] : memref<?x?x?xTT>
        %m = arith.negf %v : f32
        scf.yield %m : f32
      } else {
        %from = arith.subi %j, %half : index
        %v = memref.load %FROM[%i, %h, %from] : memref<?x?x?xTT>
        scf.yield %v : f32
      }
      %sin = memref.load %s[%i, %j] : memref<?x?xTT>
      %d = arith.mulf %t, %sin : f32
      %e = arith.addf %b, %d : f32
      memref.store %e, %INTO[%i, %h, %j] : memref<?x?x?xTT>
    }
"""
ROTARY_OF_TOKENS = f"""
tpc_kernel.func @token_NAME(%x: memref<?x?x?xTT> of [n, 8, DIM],
    %z: memref<?x?x?xTT> of [n, 3, DIM], %c: memref<?x?xTT> of [n, DIM],
    %s: memref<?x?xTT> of [n, DIM])
    -> (%y: memref<?x?x?xTT> of [n, 8, DIM], %w: memref<?x?x?xTT> of [n, 3, DIM]) {{
  %half = tpc_kernel.size HALF
  tpc_kernel.rows (%i) in [n] {{
{ROTARY_OF_HEADS.replace('HEADS', '8').replace('FROM', 'x').replace('INTO', 'y')}
{ROTARY_OF_HEADS.replace('HEADS', '3').replace('FROM', 'z').replace('INTO', 'w')}
  }}
}}
"""
NUM_ROTARY = ROTARY.count("tpc_kernel.func")


def make_rotary(sizes, kind, text=ROTARY):
    """Returns rotary embeddings for heads of these sizes: `kind` elements, computed in f32."""
    forms = []
    for size in sizes:
        turned = size // 4 // 16 * 16 or 16
        words = {
            "NAME": f"{size}_{kind}",
            "TT": kind,
            "DIM": size,
            "HALF": size // 2,
            "TURNED": turned,
            "PART": turned // 2,
            "REST": size - turned,
        }
        form = text
        for word, meaning in words.items():
            form = form.replace(word, str(meaning))
        if kind != "f32":
            form = re.sub(
                r"^( *%\w+)( = memref.load .*)$",
                rf"\1_16\2\n\1 = arith.extf \1_16 : {kind} to f32",
                form,
                flags=re.M,
            )
            form = re.sub(
                r"^( *)memref.store (%\w+)",
                rf"\1\2_16 = arith.truncf \2 : f32 to {kind}\n\1memref.store \2_16",
                form,
                flags=re.M,
            )
        forms.append(form)
    return (
        'module attributes {tpc.target = "cuda"} {'
        + SIZES
        + "module @kernels {"
        + "".join(forms)
        + "}\n}\n"
    )
