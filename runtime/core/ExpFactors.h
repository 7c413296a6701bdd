//===- ExpFactors.h - Coefficients of the polynomial for exp --------------===//
//
// Hosts and devices compute bit-identical results with these coefficients (generate/Random.h).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_EXPFACTORS_H
#define TPC_RT_CORE_EXPFACTORS_H

namespace tpc::rt {

/// Reciprocals of factorials, highest power first.
constexpr double expFactors[] = {1.1470745597729725e-11,
                                 1.6059043836821613e-10,
                                 2.08767569878681e-09,
                                 2.505210838544172e-08,
                                 2.755731922398589e-07,
                                 2.7557319223985893e-06,
                                 2.48015873015873e-05,
                                 0.0001984126984126984,
                                 0.001388888888888889,
                                 0.008333333333333333,
                                 0.041666666666666664,
                                 0.16666666666666666,
                                 0.5,
                                 1.0,
                                 1.0};

} // namespace tpc::rt

#endif // TPC_RT_CORE_EXPFACTORS_H
