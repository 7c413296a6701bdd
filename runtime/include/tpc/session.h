/* A compiled program as a library, which a host process opens, runs and closes. All programs that
 * `tpcc` builds export these functions: libraries (`--emit=lib`) and executables. All ranks are
 * threads of the process; launchers (mpirun, torchrun, srun) are ignored.
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
 * Functions that can fail return TPC_OK or an error code. They print nothing, install no signal
 * handlers, and never end the process. docs/serving-and-python.md lists the errors that a process
 * cannot survive, and the rules for threads and forks. */
#ifndef TPC_SESSION_H
#define TPC_SESSION_H

#include "tpc/dtype.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this header. Increases with each addition. */
#define TPC_SESSION_VERSION 2

/* A program with its weights loaded. */
typedef struct tpc_model tpc_model;

enum {
  TPC_OK = 0,
  TPC_REFUSED = 1, /* invalid or unavailable request; the state is unchanged */
  TPC_BROKEN = 2   /* a step failed after it started: the next call reloads the weights; a model on
                      GPUs can only be closed */
};

/* A dense, row-major tensor. */
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

/* Returns TPC_SESSION_VERSION as compiled into the loaded library. */
int tpc_session_version(void);

/* Returns the message of this thread's last failed call. Valid until the next call that fails. */
const char *tpc_last_error(void);

/* Returns inputs, outputs and parameters of the program, in the format of `--describe --json`;
 * null on failure. Valid while the library is loaded. */
const char *tpc_describe(void);

/* Loads the weights and starts the ranks. `flags` are run-time flags from the executable's --help,
 * such as --weights=DIR, without a program name before them. */
int tpc_model_open(int32_t count, const char *const *flags, tpc_model **model);

/* Waits for running calls, ends the ranks, and frees their memory. The model must not be used
 * afterwards; results stay valid. Accepts null. */
void tpc_model_close(tpc_model *model);

/* Returns the notes that an executable would have printed since the model was opened, one per
 * line. Valid until the next call on this model. */
const char *tpc_model_notes(tpc_model *model);

/* Runs one step. Omitted inputs take their defaults. Tensors of the right type are read in place
 * and not retained after the call. `results` receives all outputs in the program's order; the
 * caller owns them until tpc_results_free. Calls of several threads are serialized. */
int tpc_model_run(tpc_model *model, const tpc_tensor *inputs, int32_t count, tpc_results **results);

void tpc_results_free(tpc_results *results);

/* ---- generation: for programs compiled with --generate ---- */

/* A sequence to continue, and its sampling settings. */
typedef struct {
  const int64_t *ids; /* the prompt */
  int64_t count;
  int64_t max_new_tokens;
  double temperature;        /* 0: greedy; top_k, top_p and seed have no effect */
  int64_t top_k;             /* 0: all */
  double top_p;              /* 1: all */
  double repetition_penalty; /* 1: none */
  uint64_t seed;
  const int64_t *stop_ids; /* tokens that end the request */
  int64_t num_stop_ids;
} tpc_request;

enum {
  TPC_EVENT_TOKEN = 0,     /* token `index` of the request is `token` */
  TPC_EVENT_STOP = 1,      /* the request ended: a stop id was sampled, */
  TPC_EVENT_LENGTH = 2,    /* the maximum number of tokens was reached, */
  TPC_EVENT_CANCELLED = 3, /* the caller cancelled it, */
  TPC_EVENT_FAILED = 4,    /* or an error occurred: see tpc_last_error */
  TPC_EVENT_END = 5        /* all requests have ended */
};
typedef struct {
  int32_t kind;
  int32_t request; /* index in the list of requests */
  int64_t index;
  int64_t token;
} tpc_event;

typedef struct tpc_generation tpc_generation;

/* Starts a list of requests. At most --max-batch of them run at the same time (without the flag,
 * all). The requests are copied. Other calls on the model wait until all requests have ended. */
int tpc_model_generate(tpc_model *model, const tpc_request *requests, int32_t count,
                       tpc_generation **generation);

/* Waits for the next event and returns it. An error that is not specific to one request ends all
 * requests. */
int tpc_generation_next(tpc_generation *generation, tpc_event *event);

/* Frees the generation; call this before tpc_model_close. Running requests are cancelled after
 * their step. Accepts null. */
void tpc_generation_free(tpc_generation *generation);

/* ---- training: for programs compiled with --train, whose steps tpc_model_run runs ---- */

/* Writes a checkpoint: weights and moments, to the new folder step-N in `folder`, where N is
 * `step`, the number of steps so far. A failure leaves earlier checkpoints unchanged. */
int tpc_model_save(tpc_model *model, const char *folder, int64_t step);

/* Loads the last checkpoint in `folder`, which must be of the same model, optimizer and grid. Sets
 * `step` to its number of steps. */
int tpc_model_resume(tpc_model *model, const char *folder, int64_t *step);

#ifdef __cplusplus
}
#endif
#endif
