//===- SameShape.h - ABI equality of two declarations ---------------------===//

#ifndef TPC_TEST_SIMULATOR_CUDA_SAMESHAPE_H
#define TPC_TEST_SIMULATOR_CUDA_SAMESHAPE_H

#include <type_traits>

namespace sim {

/// Whether the sizes are equal, and both types are pointers, classes, floats, or neither is.
template <class A, class B>
constexpr bool sameParameter =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
    std::is_class_v<A> == std::is_class_v<B> &&
    std::is_floating_point_v<A> == std::is_floating_point_v<B>;

template <class A, class B> struct SameShape : std::false_type {};
template <class RA, class... A, class RB, class... B>
  requires(sizeof...(A) == sizeof...(B))
struct SameShape<RA(A...), RB(B...)>
    : std::bool_constant<sameParameter<RA, RB> && (sameParameter<A, B> && ...)> {};

/// Whether two function types have the same ABI.
template <class A, class B> constexpr bool sameShape = SameShape<A, B>::value;

} // namespace sim

#endif
