//===- Lanes.h - Scalar functions applied to all lanes --------------------===//

#ifndef TPC_TEST_SIMULATOR_PTX_LANES_H
#define TPC_TEST_SIMULATOR_PTX_LANES_H

#include "Warp.h"

namespace ptx {

/// Writes the results of a mask's lanes. All lanes are computed, so the function must be total.
template <class D> inline void blend(D *to, const D *from, Mask mask) {
  forLanes(mask, [&](unsigned lane) { to[lane] = from[lane]; });
}

/// Computes the addresses of all lanes, from a register of 32 or 64 bits and an offset.
inline void addressesOf(Warp &warp, Slot base, bool narrow, uint64_t offset, uint64_t *addresses) {
  if (narrow) {
    const uint32_t *from = warp.data<uint32_t>(base);
    for (unsigned lane = 0; lane < warpSize; ++lane)
      addresses[lane] = uint32_t(from[lane] + offset);
  } else {
    const uint64_t *from = warp.data<uint64_t>(base);
    for (unsigned lane = 0; lane < warpSize; ++lane)
      addresses[lane] = from[lane] + offset;
  }
}

/// Computes D Op::apply(S...) for each lane.
template <class Op, class D, class A> void unary(Warp &warp, const Inst &inst, Mask mask) {
  D *d = warp.data<D>(inst.dst);
  const A *a = warp.data<A>(inst.src[0]);
  alignas(64) D result[warpSize];
  D *to = mask == allLanes ? d : result;
#pragma clang loop vectorize(assume_safety)
  for (unsigned lane = 0; lane < warpSize; ++lane)
    to[lane] = Op::apply(a[lane]);
  if (mask != allLanes)
    blend(d, result, mask);
}

template <class Op, class D, class A, class B>
void binary(Warp &warp, const Inst &inst, Mask mask) {
  D *d = warp.data<D>(inst.dst);
  const A *a = warp.data<A>(inst.src[0]);
  const B *b = warp.data<B>(inst.src[1]);
  alignas(64) D result[warpSize];
  D *to = mask == allLanes ? d : result;
#pragma clang loop vectorize(assume_safety)
  for (unsigned lane = 0; lane < warpSize; ++lane)
    to[lane] = Op::apply(a[lane], b[lane]);
  if (mask != allLanes)
    blend(d, result, mask);
}

template <class Op, class D, class A, class B, class C>
void ternary(Warp &warp, const Inst &inst, Mask mask) {
  D *d = warp.data<D>(inst.dst);
  const A *a = warp.data<A>(inst.src[0]);
  const B *b = warp.data<B>(inst.src[1]);
  const C *c = warp.data<C>(inst.src[2]);
  alignas(64) D result[warpSize];
  D *to = mask == allLanes ? d : result;
#pragma clang loop vectorize(assume_safety)
  for (unsigned lane = 0; lane < warpSize; ++lane)
    to[lane] = Op::apply(a[lane], b[lane], c[lane]);
  if (mask != allLanes)
    blend(d, result, mask);
}

// Computes f(lane) for each lane. It is for instructions with rare modifiers, which f tests in each
// lane.
template <class D, class F> inline void eachLane(Warp &warp, const Inst &inst, Mask mask, F f) {
  D *d = warp.data<D>(inst.dst);
  forLanes(mask, [&](unsigned lane) { d[lane] = f(lane); });
}

/// Returns the handler of Op<T>::apply for the type T of its operands.
template <template <class> class Op> Handler unaryOf(Type type) {
  switch (type) {
  case Type::U16:
  case Type::B16:
    return unary<Op<uint16_t>, uint16_t, uint16_t>;
  case Type::S16:
    return unary<Op<int16_t>, int16_t, int16_t>;
  case Type::U32:
  case Type::B32:
    return unary<Op<uint32_t>, uint32_t, uint32_t>;
  case Type::S32:
    return unary<Op<int32_t>, int32_t, int32_t>;
  case Type::U64:
  case Type::B64:
    return unary<Op<uint64_t>, uint64_t, uint64_t>;
  case Type::S64:
    return unary<Op<int64_t>, int64_t, int64_t>;
  default:
    return nullptr;
  }
}

template <template <class> class Op> Handler binaryOf(Type type) {
  switch (type) {
  case Type::U16:
  case Type::B16:
    return binary<Op<uint16_t>, uint16_t, uint16_t, uint16_t>;
  case Type::S16:
    return binary<Op<int16_t>, int16_t, int16_t, int16_t>;
  case Type::U32:
  case Type::B32:
    return binary<Op<uint32_t>, uint32_t, uint32_t, uint32_t>;
  case Type::S32:
    return binary<Op<int32_t>, int32_t, int32_t, int32_t>;
  case Type::U64:
  case Type::B64:
    return binary<Op<uint64_t>, uint64_t, uint64_t, uint64_t>;
  case Type::S64:
    return binary<Op<int64_t>, int64_t, int64_t, int64_t>;
  default:
    return nullptr;
  }
}

template <template <class> class Op> Handler ternaryOf(Type type) {
  switch (type) {
  case Type::U16:
  case Type::B16:
    return ternary<Op<uint16_t>, uint16_t, uint16_t, uint16_t, uint16_t>;
  case Type::S16:
    return ternary<Op<int16_t>, int16_t, int16_t, int16_t, int16_t>;
  case Type::U32:
  case Type::B32:
    return ternary<Op<uint32_t>, uint32_t, uint32_t, uint32_t, uint32_t>;
  case Type::S32:
    return ternary<Op<int32_t>, int32_t, int32_t, int32_t, int32_t>;
  case Type::U64:
  case Type::B64:
    return ternary<Op<uint64_t>, uint64_t, uint64_t, uint64_t, uint64_t>;
  case Type::S64:
    return ternary<Op<int64_t>, int64_t, int64_t, int64_t, int64_t>;
  default:
    return nullptr;
  }
}

} // namespace ptx

#endif
