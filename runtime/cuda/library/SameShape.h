//===- SameShape.h - Comparison of function declarations ------------------===//
//
// Used by the comparisons with NVIDIA's headers.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_SAMESHAPE_H
#define TPC_RT_CUDA_LIBRARY_SAMESHAPE_H

#include <type_traits>

namespace tpc::rt::cuda {

/// Whether two types are passed in the same way: pointers, structs of equal size, or numbers of
/// equal size.
template <class A, class B> constexpr bool isAlike() {
  if constexpr (std::is_pointer_v<A> || std::is_pointer_v<B>)
    return std::is_pointer_v<A> && std::is_pointer_v<B>;
  else
    return sizeof(A) == sizeof(B) && std::is_class_v<A> == std::is_class_v<B> &&
           std::is_floating_point_v<A> == std::is_floating_point_v<B>;
}

template <class A, class B> struct SameShape {
  static constexpr bool value = false;
};
template <class RA, class... As, class RB, class... Bs>
  requires(sizeof...(As) == sizeof...(Bs))
struct SameShape<RA (*)(As...), RB (*)(Bs...)> {
  static constexpr bool value = isAlike<RA, RB>() && (isAlike<As, Bs>() && ...);
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_SAMESHAPE_H
