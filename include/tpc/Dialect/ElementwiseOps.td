//===- ElementwiseOps.td - Element-wise ops ----------------*- tablegen -*-===//

#ifndef TPC_DIALECT_ELEMENTWISEOPS
#define TPC_DIALECT_ELEMENTWISEOPS

include "tpc/Dialect/TpcBase.td"

// One definition per element-wise op. The base class derives the result type and the sharding rule;
// `scalar` and `reference` compute one element. Kernels, constant folding, `tpc-evaluate` and
// fusion use only these.
//
// Sharding rule of every op: dimensions of equal size share a parallel factor; a broadcast
// dimension of size 1 has no factor.

class Tpc_ScalarOp<string mnemonic, list<Trait> traits = []>
        : Tpc_InferredOp<mnemonic,
                     !listconcat([DeclareOpInterfaceMethods<ScalarOpInterface,
                                                            ["getIdentity", "getAbsorbing"]>],
                                 traits)> {
  // C++: returns the element type of the result; may use `operands`.
  string element = "elementTypeOf(operands[0])";
  // Whether the last two operands must have one element type.
  bit sameElements = 0;
  // C++: initializer of ShardingRule::linear.
  string linear = "";
  // C++: the identity of operand `i` and the absorbing number, see ScalarOpInterface.
  string identity = "{}";
  string absorbing = "{}";
  // Whether recomputing an element costs less than storing it.
  bit cheap = 1;
  // C++: builds the result from the Values `x`, with builder `b` at `loc`. If empty,
  // ElementwiseOps.cpp defines buildScalar.
  code scalar = "";
  // C++: computes the result from the doubles `x`, in double precision. If empty,
  // ElementwiseOps.cpp defines evaluateScalar.
  code reference = "";

  let extraClassDefinition = !strconcat(
    "LogicalResult $cppClass::inferReturnTypes(\n"
    "    MLIRContext *context, std::optional<Location> loc, Adaptor adaptor,\n"
    "    SmallVectorImpl<Type> &types) {\n"
    "  ValueRange operands = adaptor.getOperands();\n",
    !if(sameElements,
        "  if (failed(checkSameElements(loc, operands)))\n    return failure();\n", ""),
    "  return inferElementwise(loc, operands, ", element, ", types);\n"
    "}\n"
    "bool $cppClass::isCompatibleReturnTypes(TypeRange a, TypeRange b) {\n"
    "  return compatibleTypes(a, b);\n"
    "}\n"
    "ShardingRule $cppClass::getShardingRule() {\n"
    "  return getElementwiseRule(*this, {", linear, "});\n"
    "}\n"
    "std::optional<double> $cppClass::getIdentity([[maybe_unused]] unsigned i) {\n"
    "  return ", identity, ";\n"
    "}\n"
    "std::optional<double> $cppClass::getAbsorbing() { return ", absorbing, "; }\n"
    "bool $cppClass::isCheapScalar() { return ", !if(cheap, "true", "false"), "; }\n",
    !if(!empty(scalar), "",
            "Value $cppClass::buildScalar(OpBuilder &b, Location loc, ValueRange x) { "
            # scalar # " }\n"),
    !if(!empty(reference), "",
        "double $cppClass::evaluateScalar(ArrayRef<double> x) { " # reference # " }\n"));
}

class Tpc_UnaryOp<string mnemonic, Type type, string summary_, list<Trait> traits = []>
    : Tpc_ScalarOp<mnemonic, traits> {
  let summary = summary_;
  let arguments = (ins type:$operand);
  let results = (outs type:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
}

/// Unary op on floating-point numbers. `scalar` and `reference` are expressions.
class Tpc_FloatOp<string mnemonic, string summary_, code scalar_, code reference_, bit cheap_ = 0>
    : Tpc_UnaryOp<mnemonic, Tpc_FloatTensor, summary_> {
  let scalar = "return " # scalar_ # ";";
  let reference = "return " # reference_ # ";";
  let cheap = cheap_;
}

class Tpc_BinaryOp<string mnemonic, Type type, string summary_, list<Trait> traits = []>
    : Tpc_ScalarOp<mnemonic, traits> {
  let summary = summary_;
  let arguments = (ins type:$lhs, type:$rhs);
  let results = (outs type:$result);
  let sameElements = 1;
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
}

/// Binary op on numbers: one op of the arith dialect for floats and one for integers (two where
/// signed and unsigned integers differ).
class Tpc_NumberOp<string mnemonic, string summary_, string floats, string integers,
                   code reference_, list<Trait> traits = [], string unsigned = integers>
    : Tpc_BinaryOp<mnemonic, Tpc_Tensor, summary_, traits> {
  let scalar = "return isFloat(x[0]) ? Value(arith::" # floats # "::create(b, loc, x[0], x[1]))"
                          " : isUnsigned(getLhs().getType()) ? Value(arith::" # unsigned
               # "::create(b, loc, x[0], x[1]))"
               " : Value(arith::" # integers # "::create(b, loc, x[0], x[1]));";
  let reference = "return " # reference_ # ";";
}

/// Logical op on booleans, and on each bit of integers. `bitwise` is C++'s operator.
class Tpc_LogicalOp<string mnemonic, string summary_, string operation, string bitwise>
    : Tpc_BinaryOp<mnemonic, AnyTypeOf<[Tpc_BoolTensor, Tpc_IntTensor]>, summary_, [Commutative]> {
  let scalar = "return arith::" # operation # "::create(b, loc, x[0], x[1]);";
  let reference = "return (int64_t)x[0] " # bitwise # " (int64_t)x[1];";
}

def Tpc_NegOp : Tpc_UnaryOp<"neg", Tpc_Tensor, "-x. Linear. ONNX Neg."> {
  let linear = "{{0}, false}";
  let scalar = [{
    return isFloat(x[0]) ? Value(arith::NegFOp::create(b, loc, x[0]))
                                              : Value(arith::SubIOp::create(
                               b, loc, number(b, loc, x[0].getType(), 0), x[0]));
  }];
  let reference = [{ return -x[0]; }];
}
def Tpc_AbsOp : Tpc_UnaryOp<"abs", Tpc_Tensor, "|x|. ONNX Abs."> {
  let scalar = [{
    return isFloat(x[0]) ? Value(math::AbsFOp::create(b, loc, x[0]))
           : isUnsigned(getOperand().getType()) ? x[0] : Value(math::AbsIOp::create(b, loc, x[0]));
  }];
  let reference = [{ return std::fabs(x[0]); }];
}
def Tpc_NotOp : Tpc_UnaryOp<"not", Tpc_BoolTensor, "Logical not. ONNX Not."> {
  let scalar = [{
    return arith::XOrIOp::create(b, loc, x[0], number(b, loc, x[0].getType(), 1));
  }];
  let reference = [{ return x[0] == 0; }];
}

def Tpc_ExpOp : Tpc_FloatOp<"exp", "e^x. ONNX Exp.",
    "math::ExpOp::create(b, loc, x[0])", "std::exp(x[0])">;
def Tpc_LogOp : Tpc_FloatOp<"log", "Natural logarithm. ONNX Log.",
    "math::LogOp::create(b, loc, x[0])", "std::log(x[0])">;
def Tpc_TanhOp : Tpc_FloatOp<"tanh", "Hyperbolic tangent. ONNX Tanh.",
    "math::TanhOp::create(b, loc, x[0])", "std::tanh(x[0])">;
def Tpc_ErfOp : Tpc_FloatOp<"erf", "Error function. ONNX Erf.",
    "math::ErfOp::create(b, loc, x[0])", "std::erf(x[0])">;
def Tpc_SinOp : Tpc_FloatOp<"sin", "Sine. ONNX Sin.",
    "math::SinOp::create(b, loc, x[0])", "std::sin(x[0])">;
def Tpc_CosOp : Tpc_FloatOp<"cos", "Cosine. ONNX Cos.",
    "math::CosOp::create(b, loc, x[0])", "std::cos(x[0])">;
def Tpc_SigmoidOp : Tpc_FloatOp<"sigmoid", "1 / (1 + e^-x). ONNX Sigmoid.",
    "sigmoid(b, loc, x[0])", "sigmoid(x[0])">;
def Tpc_SiluOp : Tpc_FloatOp<"silu", "x * sigmoid(x), also called swish.",
    "silu(b, loc, x[0])", "x[0] * sigmoid(x[0])">;

def Tpc_SqrtOp : Tpc_FloatOp<"sqrt", "Square root. ONNX Sqrt.",
    "math::SqrtOp::create(b, loc, x[0])", "std::sqrt(x[0])", 1>;
def Tpc_RsqrtOp : Tpc_FloatOp<"rsqrt", "1 / sqrt(x).",
    "reciprocal(b, loc, math::SqrtOp::create(b, loc, x[0]))", "1 / std::sqrt(x[0])", 1>;
def Tpc_ReciprocalOp : Tpc_FloatOp<"reciprocal", "1 / x. ONNX Reciprocal.",
    "reciprocal(b, loc, x[0])", "1 / x[0]", 1>;
def Tpc_ReluOp : Tpc_FloatOp<"relu", "max(x, 0). ONNX Relu.",
    "relu(b, loc, x[0])", "x[0] < 0 ? 0 : x[0]", 1>;
def Tpc_FloorOp : Tpc_FloatOp<"floor", "Largest integer not above x. ONNX Floor.",
    "math::FloorOp::create(b, loc, x[0])", "std::floor(x[0])", 1>;
def Tpc_CeilOp : Tpc_FloatOp<"ceil", "Smallest integer not below x. ONNX Ceil.",
    "math::CeilOp::create(b, loc, x[0])", "std::ceil(x[0])", 1>;
def Tpc_RoundOp : Tpc_FloatOp<"round", "Nearest integer, ties to even. ONNX Round.",
    "math::RoundEvenOp::create(b, loc, x[0])", "std::nearbyint(x[0])", 1>;

def Tpc_GeluApproximation : I32EnumAttr<"GeluApproximation", "GELU formula", [
    I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"Tanh", 1, "tanh">,
    I32EnumAttrCase<"Sigmoid", 2, "sigmoid">]> {
  let cppNamespace = "::mlir::tpc";
}

def Tpc_GeluOp : Tpc_ScalarOp<"gelu"> {
  let summary = "Gaussian error linear unit";
  let description = [{
    `none`: x/2 (1 + erf(x / sqrt 2)). `tanh`: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
    `sigmoid`: x sigmoid(1.702 x). Hendrycks and Gimpel, 2016; ONNX Gelu (opset
    20), com.microsoft Gelu, FastGelu (tanh) and QuickGelu (sigmoid).
  }];
  let arguments = (ins Tpc_FloatTensor:$operand,
                       DefaultValuedAttr<Tpc_GeluApproximation,
                                         "GeluApproximation::None">:$approximate);
  let results = (outs Tpc_FloatTensor:$result);
  let cheap = 0;
  let assemblyFormat = "$approximate $operand attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_IsNanOp : Tpc_ScalarOp<"is_nan"> {
  let summary = "True where x is not a number. ONNX IsNaN.";
  let arguments = (ins Tpc_FloatTensor:$operand);
  let results = (outs Tpc_BoolTensor:$result);
  let element = "IntegerType::get(context, 1)";
  let scalar = [{
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, x[0], x[0]);
  }];
  let reference = [{ return std::isnan(x[0]); }];
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_CastOp : Tpc_ModelOp<"cast", [DeclareOpInterfaceMethods<ScalarOpInterface>]> {
  let summary = "Conversion between element types";
  let description = [{
    ONNX Cast. Float to integer truncates toward zero, any type to boolean is x != 0, and boolean
    to a number is 0 or 1. Shapes are equal. A cast between floating-point types is linear if it is
    exact, that is, if the result type represents every value of the operand type. Other casts are
    not: a sum of rounded terms differs from the rounded sum.
  }];
  let arguments = (ins Tpc_Tensor:$operand);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_AddOp : Tpc_NumberOp<"add", "x + y. Linear if both are unreduced. ONNX Add.", "AddFOp",
                             "AddIOp", "x[0] + x[1]", [Commutative]> {
  let identity = "0.0";
  let linear = "{{0, 1}, false}";
}
def Tpc_SubOp : Tpc_NumberOp<"sub", "x - y. Linear if both are unreduced. ONNX Sub.", "SubFOp",
                             "SubIOp", "x[0] - x[1]"> {
  let identity = "identityOfRhs(i, 0)";
  let linear = "{{0, 1}, false}";
}
def Tpc_MulOp : Tpc_NumberOp<"mul", "x * y. Linear in each operand. ONNX Mul.", "MulFOp", "MulIOp",
                             "x[0] * x[1]", [Commutative]> {
  let linear = "{{0}, false}, {{1}, false}";
  let identity = "1.0";
  let absorbing = "isInteger(getLhs()) ? std::optional<double>(0) : std::nullopt"; // 0 * NaN is NaN
}
def Tpc_MaxOp : Tpc_NumberOp<
    "max", "Maximum; 0 for 0 and -0; NaN if either operand is NaN. ONNX Max.", "MaximumFOp",
    "MaxSIOp",
    "std::isnan(x[0]) || x[0] > x[1] || (x[0] == x[1] && std::signbit(x[1])) ? x[0] : x[1]",
    [Commutative], "MaxUIOp">;
def Tpc_MinOp : Tpc_NumberOp<
    "min", "Minimum; -0 for 0 and -0; NaN if either operand is NaN. ONNX Min.", "MinimumFOp",
    "MinSIOp",
    "std::isnan(x[0]) || x[0] < x[1] || (x[0] == x[1] && std::signbit(x[0])) ? x[0] : x[1]",
    [Commutative], "MinUIOp">;
def Tpc_DivOp : Tpc_BinaryOp<"div", Tpc_Tensor,
    "x / y; integers truncate. Linear in x. ONNX Div."> {
  let linear = "{isa<FloatType>(elementTypeOf(getLhs())) ? SmallVector<int, 2>{0} "
               ": SmallVector<int, 2>{}, false}";
  let identity = "identityOfRhs(i, 1)";
  let reference = [{ return isInteger(getLhs()) ? std::trunc(x[0] / x[1]) : x[0] / x[1]; }];
}
def Tpc_ModOp : Tpc_BinaryOp<"mod", Tpc_Tensor,
    "Remainder. Integers: with the sign of y; floats: with the sign of x. ONNX Mod.">;
def Tpc_AndOp : Tpc_LogicalOp<"and", "Logical and. ONNX And.",
                             "AndIOp", "&"> {
  let identity = "allBits(getLhs())";
  let absorbing = "0.0";
}
def Tpc_OrOp : Tpc_LogicalOp<"or", "Logical or. ONNX Or.", "OrIOp",
                            "|"> {
  let identity = "0.0";
  let absorbing = "allBits(getLhs())";
}
def Tpc_XorOp : Tpc_LogicalOp<"xor", "Exclusive or. ONNX Xor.",
                             "XOrIOp", "^"> {
  let identity = "0.0";
}
def Tpc_PowOp : Tpc_ScalarOp<"pow"> {
  let summary = "x to the power of y. The types of x and y may differ. ONNX Pow.";
  let arguments = (ins Tpc_Tensor:$lhs, Tpc_Tensor:$rhs);
  let results = (outs Tpc_Tensor:$result);
  let cheap = 0;
  let reference = [{ return std::pow(x[0], x[1]); }];
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
}
def Tpc_Predicate : I32EnumAttr<"Predicate", "comparison", [
    I32EnumAttrCase<"EQ", 0, "eq">, I32EnumAttrCase<"NE", 1, "ne">, I32EnumAttrCase<"LT", 2, "lt">,
    I32EnumAttrCase<"LE", 3, "le">, I32EnumAttrCase<"GT", 4, "gt">,
    I32EnumAttrCase<"GE", 5, "ge">]> {
  let cppNamespace = "::mlir::tpc";
}

def Tpc_CmpOp : Tpc_ScalarOp<"cmp"> {
  let summary = "Comparison; false for NaN except `ne`. ONNX Equal, Less, LessOrEqual, Greater, "
                "GreaterOrEqual.";
  let arguments = (ins Tpc_Predicate:$predicate, Tpc_Tensor:$lhs, Tpc_Tensor:$rhs);
  let results = (outs Tpc_BoolTensor:$result);
  let element = "IntegerType::get(context, 1)";
  let sameElements = 1;
  let assemblyFormat = [{
    $predicate $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
}

def Tpc_SelectOp : Tpc_ScalarOp<"select"> {
  let summary = "x where the condition is true, else y. Linear in x and y together. ONNX Where.";
  let arguments = (ins Tpc_BoolTensor:$condition, Tpc_Tensor:$lhs, Tpc_Tensor:$rhs);
  let results = (outs Tpc_Tensor:$result);
  let element = "elementTypeOf(operands.back())";
  let sameElements = 1;
  let linear = "{{1, 2}, true}";
  let scalar = [{ return arith::SelectOp::create(b, loc, x[0], x[1], x[2]); }];
  let reference = [{ return x[0] != 0 ? x[1] : x[2]; }];
  let assemblyFormat = [{
    $condition `,` $lhs `,` $rhs attr-dict `:` type($condition) `,` type($lhs) `,` type($rhs) `->`
    type($result)
  }];
}

#endif
