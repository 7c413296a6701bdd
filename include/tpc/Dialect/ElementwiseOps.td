//===- ElementwiseOps.td - One element at a time ----------------*- tablegen -*-===//

#ifndef TPC_DIALECT_ELEMENTWISEOPS
#define TPC_DIALECT_ELEMENTWISEOPS

include "tpc/Dialect/TpcBase.td"

// Rule of every op here: dimensions of equal size share a parallel factor; a
// dimension of size 1 that broadcasts has none.

class Tpc_ScalarOp<string mnemonic, list<Trait> traits = []>
    : Tpc_InferredOp<mnemonic, !listconcat([DeclareOpInterfaceMethods<ScalarOpInterface>], traits)>;

class Tpc_UnaryOp<string mnemonic, Type type, string what, list<Trait> traits = []> : Tpc_ScalarOp<mnemonic, traits> {
  let summary = what;
  let arguments = (ins type:$operand);
  let results = (outs type:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
}

class Tpc_BinaryOp<string mnemonic, Type type, string what, list<Trait> traits = []> : Tpc_ScalarOp<mnemonic, traits> {
  let summary = what;
  let arguments = (ins type:$lhs, type:$rhs);
  let results = (outs type:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
}

def Tpc_NegOp : Tpc_UnaryOp<"neg", Tpc_Tensor, "-x. Linear. ONNX Neg.">;
def Tpc_AbsOp : Tpc_UnaryOp<"abs", Tpc_Tensor, "|x|. ONNX Abs.">;
def Tpc_ExpOp : Tpc_UnaryOp<"exp", Tpc_FloatTensor, "e^x. ONNX Exp.">;
def Tpc_LogOp : Tpc_UnaryOp<"log", Tpc_FloatTensor, "Natural logarithm. ONNX Log.">;
def Tpc_SqrtOp : Tpc_UnaryOp<"sqrt", Tpc_FloatTensor, "Square root. ONNX Sqrt.">;
def Tpc_RsqrtOp : Tpc_UnaryOp<"rsqrt", Tpc_FloatTensor, "1 / sqrt(x).">;
def Tpc_ReciprocalOp : Tpc_UnaryOp<"reciprocal", Tpc_FloatTensor, "1 / x. ONNX Reciprocal.">;
def Tpc_TanhOp : Tpc_UnaryOp<"tanh", Tpc_FloatTensor, "Hyperbolic tangent. ONNX Tanh.">;
def Tpc_ErfOp : Tpc_UnaryOp<"erf", Tpc_FloatTensor, "Error function. ONNX Erf.">;
def Tpc_SigmoidOp : Tpc_UnaryOp<"sigmoid", Tpc_FloatTensor, "1 / (1 + e^-x). ONNX Sigmoid.">;
def Tpc_ReluOp : Tpc_UnaryOp<"relu", Tpc_FloatTensor, "max(x, 0). ONNX Relu.">;
def Tpc_SinOp : Tpc_UnaryOp<"sin", Tpc_FloatTensor, "Sine. ONNX Sin.">;
def Tpc_CosOp : Tpc_UnaryOp<"cos", Tpc_FloatTensor, "Cosine. ONNX Cos.">;
def Tpc_FloorOp : Tpc_UnaryOp<"floor", Tpc_FloatTensor, "Largest integer not above x. ONNX Floor.">;
def Tpc_CeilOp : Tpc_UnaryOp<"ceil", Tpc_FloatTensor, "Least integer not below x. ONNX Ceil.">;
def Tpc_SiluOp : Tpc_UnaryOp<"silu", Tpc_FloatTensor, "x * sigmoid(x), also called swish.">;
def Tpc_NotOp : Tpc_UnaryOp<"not", Tpc_BoolTensor, "Logical not. ONNX Not.">;

def Tpc_GeluApproximation : I32EnumAttr<"GeluApproximation", "how GELU is computed", [
    I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"Tanh", 1, "tanh">, I32EnumAttrCase<"Sigmoid", 2, "sigmoid">]> {
  let cppNamespace = "::mlir::tpc";
}

def Tpc_GeluOp : Tpc_ScalarOp<"gelu"> {
  let summary = "Gaussian error linear unit";
  let description = [{
    `none`: x/2 (1 + erf(x / sqrt 2)). `tanh`: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
    `sigmoid`: x sigmoid(1.702 x). Hendrycks and Gimpel, 2016; ONNX Gelu (opset
    20), com.microsoft Gelu, FastGelu (tanh) and QuickGelu (sigmoid).
  }];
  let arguments = (ins Tpc_FloatTensor:$operand, DefaultValuedAttr<Tpc_GeluApproximation, "GeluApproximation::None">:$approximate);
  let results = (outs Tpc_FloatTensor:$result);
  let assemblyFormat = "$approximate $operand attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_IsNanOp : Tpc_ScalarOp<"is_nan"> {
  let summary = "True where x is not a number. ONNX IsNaN.";
  let arguments = (ins Tpc_FloatTensor:$operand);
  let results = (outs Tpc_BoolTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_CastOp : Tpc_ModelOp<"cast", [DeclareOpInterfaceMethods<ScalarOpInterface>]> {
  let summary = "Conversion between element types";
  let description = [{
    ONNX Cast: float to integer truncates toward zero, anything to boolean is
    x != 0, boolean to a number is 0 or 1. Shapes are equal. Linear between
    floating-point types.
  }];
  let arguments = (ins Tpc_Tensor:$operand);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_AddOp : Tpc_BinaryOp<"add", Tpc_Tensor, "x + y. Linear where both are unreduced. ONNX Add.", [Commutative]>;
def Tpc_SubOp : Tpc_BinaryOp<"sub", Tpc_Tensor, "x - y. Linear where both are unreduced. ONNX Sub.">;
def Tpc_MulOp : Tpc_BinaryOp<"mul", Tpc_Tensor, "x * y. Linear in each. ONNX Mul.", [Commutative]>;
def Tpc_DivOp : Tpc_BinaryOp<"div", Tpc_Tensor, "x / y; integers truncate. Linear in x. ONNX Div.">;
def Tpc_PowOp : Tpc_ScalarOp<"pow"> {
  let summary = "x to the power of y, which may be of another type. ONNX Pow.";
  let arguments = (ins Tpc_Tensor:$lhs, Tpc_Tensor:$rhs);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
}
def Tpc_MaxOp : Tpc_BinaryOp<"max", Tpc_Tensor, "The larger one; NaN if one is. ONNX Max.", [Commutative]>;
def Tpc_MinOp : Tpc_BinaryOp<"min", Tpc_Tensor, "The smaller one; NaN if one is. ONNX Min.", [Commutative]>;
def Tpc_ModOp : Tpc_BinaryOp<"mod", Tpc_Tensor, "Remainder with the sign of y (integers), of x (floats). ONNX Mod.">;
def Tpc_AndOp : Tpc_BinaryOp<"and", Tpc_BoolTensor, "Logical and. ONNX And.", [Commutative]>;
def Tpc_OrOp : Tpc_BinaryOp<"or", Tpc_BoolTensor, "Logical or. ONNX Or.", [Commutative]>;
def Tpc_XorOp : Tpc_BinaryOp<"xor", Tpc_BoolTensor, "Exclusive or. ONNX Xor.", [Commutative]>;

def Tpc_Predicate : I32EnumAttr<"Predicate", "comparison", [
    I32EnumAttrCase<"EQ", 0, "eq">, I32EnumAttrCase<"NE", 1, "ne">, I32EnumAttrCase<"LT", 2, "lt">,
    I32EnumAttrCase<"LE", 3, "le">, I32EnumAttrCase<"GT", 4, "gt">, I32EnumAttrCase<"GE", 5, "ge">]> {
  let cppNamespace = "::mlir::tpc";
}

def Tpc_CmpOp : Tpc_ScalarOp<"cmp"> {
  let summary = "Comparison; false for NaN except `ne`. ONNX Equal, Less, LessOrEqual, Greater, GreaterOrEqual.";
  let arguments = (ins Tpc_Predicate:$predicate, Tpc_Tensor:$lhs, Tpc_Tensor:$rhs);
  let results = (outs Tpc_BoolTensor:$result);
  let assemblyFormat = "$predicate $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
}

def Tpc_SelectOp : Tpc_ScalarOp<"select"> {
  let summary = "x where the condition holds, else y. Linear in x and y together. ONNX Where.";
  let arguments = (ins Tpc_BoolTensor:$condition, Tpc_Tensor:$lhs, Tpc_Tensor:$rhs);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = [{
    $condition `,` $lhs `,` $rhs attr-dict `:` type($condition) `,` type($lhs) `,` type($rhs) `->` type($result)
  }];
}

#endif
