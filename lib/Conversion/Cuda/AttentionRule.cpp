//===- AttentionRule.cpp - Choice of cuDNN or generated attention ---------===//

#include "tpc/Conversion/Cuda/Attention.h"

using namespace mlir;
using namespace mlir::tpc;

// The decision depends only on the variant: whether a key mask is a prefix, or a row of a mask
// empty, is unknown at compile time.
StringRef cuda::getLibraryLimitation(const AttentionVariant &variant) {
  if (variant.element == TPC_F32)
    return "f32: the library may compute in TF32";
  if (variant.headSize % 8 || variant.valueSize % 8 || variant.headSize > 256 ||
      variant.valueSize > 256)
    return "the library takes head sizes that are multiples of 8, up to 256";
  if (variant.keyMask)
    return "a key mask is not always a prefix";
  if (variant.mask)
    return "a row of the mask may be empty";
  if (variant.cached && variant.bias >= 0)
    return "a bias has as many keys as the cache";
  if (variant.windowed)
    return "a window may leave a row without keys";
  if (variant.slopes >= 0 || variant.sinks >= 0 || variant.softcap)
    return "the graph that is given to the library has neither slopes nor sinks nor a soft-cap";
  if (variant.uniformRows)
    return "rows without a visible key attend to all keys equally";
  return "";
}
