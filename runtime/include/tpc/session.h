/* A compiled program as a library: opened, run and closed by a process that does other things as
 * well. What `tpcc` makes exports these functions, be it `--emit=lib` or an executable. All ranks
 * are threads of the process; launchers (mpirun, torchrun, srun) are not looked at.
 *
 *   tpc_model *model;
 *   const char *flags[] = {"--weights=model.onnx.data", "--threads-per-rank=2"};
 *   if (tpc_model_open(2, flags, &model))
 *     fail(tpc_last_error());
 *   int64_t shape[] = {1, 7};
 *   tpc_tensor ids = {"input_ids", TPC_I64, 2, shape, data};
 *   tpc_results *results;
 *   if (tpc_model_run(model, &ids, 1, &results))
 *     fail(tpc_last_error());
 *   ... results->tensors[0].data ...
 *   tpc_results_free(results);
 *   tpc_model_close(model);
 *
 * Functions that can fail return TPC_OK or why they did; nothing is printed, no signal handled, and
 * the process never ended. docs/serving-and-python.md says what cannot be survived, and what holds for threads
 * and forks. */
#ifndef TPC_SESSION_H
#define TPC_SESSION_H

#include "tpc/dtype.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of this header. Grows when something is added. */
#define TPC_SESSION_VERSION 1

/* A program with its weights loaded. */
typedef struct tpc_model tpc_model;

enum {
  TPC_OK = 0,
  TPC_REFUSED = 1, /* what was asked for is wrong or not there; nothing has changed */
  TPC_BROKEN = 2   /* a step has begun and failed; the model loads its weights anew with the next
                      call, but for GPUs, where it can only be closed */
};

/* Dense, row-major. */
typedef struct {
  const char *name;
  tpc_dtype dtype;
  int32_t rank;
  const int64_t *shape;
  const void *data;
} tpc_tensor;

typedef struct {
  int32_t count;
  const tpc_tensor *tensors;
} tpc_results;

/* Of the library that is loaded: TPC_SESSION_VERSION when it was made. */
int tpc_session_version(void);

/* What the last call of this thread that failed has to say. Valid until the next that fails. */
const char *tpc_last_error(void);

/* What the program takes, gives, and holds, as `--describe --json` prints it. Null where that
 * fails. Valid as long as the library is loaded. */
const char *tpc_describe(void);

/* Loads the weights and starts the ranks. `flags`: those of the executable's --help that are about
 * how it runs, such as --weights=DIR, without the name of a program before them. */
int tpc_model_open(int32_t count, const char *const *flags, tpc_model **model);

/* Waits for calls that run, ends the ranks, and gives back what they hold. Nobody may use the model
 * any longer; results that it gave stay. Null is nothing. */
void tpc_model_close(tpc_model *model);

/* What an executable would have printed as notes since it was opened, a line each. Valid until the
 * next call on this model. */
const char *tpc_model_notes(tpc_model *model);

/* Runs one step. Inputs that are left out have their defaults. Tensors of the right type are read
 * where they are, and not kept. `results`: all outputs, in the program's order, the caller's until
 * tpc_results_free. Several threads may call: one after the other is served. */
int tpc_model_run(tpc_model *model, const tpc_tensor *inputs, int32_t count, tpc_results **results);

void tpc_results_free(tpc_results *results);

/* ---- generation: of programs that were compiled with --generate ---- */

/* A sequence to go on with, and how. */
typedef struct {
  const int64_t *ids; /* the prompt */
  int64_t count;
  int64_t max_new_tokens;
  double temperature;        /* 0: the most probable token, and what follows does not matter */
  int64_t top_k;             /* 0: all */
  double top_p;              /* 1: all */
  double repetition_penalty; /* 1: none */
  uint64_t seed;
  const int64_t *stop_ids; /* tokens that end it */
  int64_t num_stop_ids;
} tpc_request;

enum {
  TPC_EVENT_TOKEN = 0,     /* token `index` of the request is `token` */
  TPC_EVENT_STOP = 1,      /* the request has ended: by a stop id, */
  TPC_EVENT_LENGTH = 2,    /* because there are as many tokens as may be, */
  TPC_EVENT_CANCELLED = 3, /* because nobody wants it any more, */
  TPC_EVENT_FAILED = 4,    /* or by an error: see tpc_last_error */
  TPC_EVENT_END = 5        /* all have */
};
typedef struct {
  int32_t kind;
  int32_t request; /* its place in the list */
  int64_t index;
  int64_t token;
} tpc_event;

typedef struct tpc_generation tpc_generation;

/* Begins with some requests, which go on together as far as --max-batch says (all, without it).
 * They are copied. Other calls on the model wait until all have ended. */
int tpc_model_generate(tpc_model *model, const tpc_request *requests, int32_t count,
                       tpc_generation **generation);

/* What comes next, when it is there. An error other than that of a single request ends all. */
int tpc_generation_next(tpc_generation *generation, tpc_event *event);

/* Before the model is closed. What still runs is cancelled, after its step. Null is nothing. */
void tpc_generation_free(tpc_generation *generation);

#ifdef __cplusplus
}
#endif
#endif
