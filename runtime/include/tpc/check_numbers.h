/* Search for the first op with numbers that are not finite: part of the C ABI of runtime.h.
 *
 * Programs that train call these functions after each op. They do nothing, except in a step that
 * repeats one whose loss or gradients were not finite. */
#ifndef TPC_CHECK_NUMBERS_H
#define TPC_CHECK_NUMBERS_H

#include "tpc/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Checks `count` floats that an op has written. `node` is the index of its name in
 * tpc_program.nodes; if `line` is not negative, its name is this line of the current layer's names.
 * `has_masks`: negative infinity is valid, because kernels mask with it. */
void tpc_check_numbers(tpc_context *ctx, const void *from, int64_t count, int32_t dtype,
                       int32_t node, int32_t line, int32_t has_masks);

/* Sets the current layer: `names` is the index of its names in tpc_program.nodes, joined by
 * newlines, and `layer` its number. */
void tpc_enter_layer(tpc_context *ctx, int32_t names, int32_t layer);

#ifdef __cplusplus
}
#endif
#endif
