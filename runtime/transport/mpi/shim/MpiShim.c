/* libtpc_mpi.so: point-to-point messages by MPI. MessageTransport.cpp builds collectives from
   them; MPI's own reductions do not add in rank order. */

#define _GNU_SOURCE /* cpu_set_t */
#include "transport/mpi/MpiShim.h"
#include "transport/mpi/shim/Doorbell.h"
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Longer messages are sent in parts: MPI counts are ints, and each received part proves progress.
   TPC_MPI_PART_BYTES is for tests. */
static int64_t part_bytes = INT64_C(1) << 26;

/* MPI is initialized once per process, so there is one session at a time. */
static int is_open, is_ours; /* ours: we initialized MPI, and finalize it */
static MPI_Comm world;
static int world_rank, world_size;

/* Requests in flight: receives, then sends. Parallel arrays, because MPI takes an array of
   requests. */
static MPI_Request *requests;
static int32_t *peers;
static int *completed; /* indices that MPI_Testsome returns */
static int64_t num_allocated;
static int num_requests, num_incoming, num_open; /* all; receives; not completed */
static int all_reached;                          /* all peers ring after sending */
static uint32_t rings;                           /* at the last check */

static int32_t init(int32_t *rank, int32_t *size, int32_t *ranks_on_host, int32_t *cores_on_host,
                    char *error, int64_t capacity) {
  /* Open MPI spins by default, which is very slow with more ranks than cores. This file
     implements waiting instead. */
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  const char *part = getenv("TPC_MPI_PART_BYTES");
  if (part && atoll(part) > 0 && atoll(part) < part_bytes)
    part_bytes = atoll(part);
  int provided = MPI_THREAD_SINGLE, initialized = 0, finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized || is_open) {
    snprintf(error, (size_t)capacity,
             finalized
                 ? "MPI was finalized in this process, and cannot be initialized again"
                 : "this process already has a session, which must end before another begins");
    return 1;
  }
  MPI_Initialized(&initialized);
  if (!initialized) {
    int status = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    if (status != MPI_SUCCESS) {
      snprintf(error, (size_t)capacity, "MPI_Init_thread failed with status %d", status);
      return 1;
    }
  }
  /* Only this thread calls MPI, but the process has other threads. */
  MPI_Query_thread(&provided);
  if (provided < MPI_THREAD_FUNNELED) {
    if (!initialized)
      MPI_Finalize();
    snprintf(error, (size_t)capacity,
             "MPI was initialized with MPI_THREAD_SINGLE, while a rank has several threads; %s",
             initialized ? "initialize it with MPI_Init_thread and MPI_THREAD_FUNNELED"
                         : "build libtpc_mpi.so with an MPI that supports MPI_THREAD_FUNNELED");
    return 1;
  }
  is_open = 1;
  is_ours = !initialized;
  /* A separate communicator, so that other code in the process cannot receive our messages. */
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  MPI_Comm_rank(world, &world_rank);
  MPI_Comm_size(world, &world_size);
  MPI_Comm host;
  int on_host = 1;
  MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_size(host, &on_host);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof(cores), &cores);
  MPI_Allreduce(MPI_IN_PLACE, &cores, (int)sizeof(cores), MPI_BYTE, MPI_BOR, host);
  tpc_doorbells_open(world, host);
  MPI_Comm_free(&host);
  *rank = world_rank;
  *size = world_size;
  *ranks_on_host = on_host;
  *cores_on_host = CPU_COUNT(&cores);
  return 0;
}

static int64_t parts_of(const tpc_message *messages, int32_t count) {
  int64_t parts = 0;
  for (int32_t i = 0; i < count; ++i)
    parts +=
        messages[i].bytes <= part_bytes ? 1 : (messages[i].bytes + part_bytes - 1) / part_bytes;
  return parts;
}

static int reserve(int64_t count) {
  if (count <= num_allocated)
    return 1;
  MPI_Request *grown = realloc(requests, (size_t)count * sizeof(MPI_Request));
  if (grown)
    requests = grown;
  int32_t *grown_peers = realloc(peers, (size_t)count * sizeof(int32_t));
  if (grown_peers)
    peers = grown_peers;
  int *grown_completed = realloc(completed, (size_t)count * sizeof(int));
  if (grown_completed)
    completed = grown_completed;
  if (!grown || !grown_peers || !grown_completed)
    return 0;
  num_allocated = count;
  return 1;
}

static int start_some(const tpc_message *messages, int32_t count, int sending, int next) {
  for (int32_t i = 0; i < count; ++i) {
    const tpc_message *message = &messages[i];
    int64_t at = 0;
    do {
      int64_t bytes = message->bytes - at < part_bytes ? message->bytes - at : part_bytes;
      char *data = (char *)message->data + at;
      peers[next] = message->peer;
      if (sending)
        MPI_Isend(data, (int)bytes, MPI_BYTE, message->peer, message->tag, world,
                  &requests[next++]);
      else
        MPI_Irecv(data, (int)bytes, MPI_BYTE, message->peer, message->tag, world,
                  &requests[next++]);
      at += bytes;
    } while (at < message->bytes);
    if (sending)
      tpc_doorbell_ring(message->peer);
  }
  return next;
}

/* A posted message: its requests, followed by its bytes. */
typedef struct posted {
  struct posted *next;
  int32_t peer;
  int num_requests;
  MPI_Request requests[];
} posted;

static posted *posts;
static int flushes_next, is_flushing;

static int32_t post(const tpc_message *message) {
  int64_t parts = parts_of(message, 1);
  posted *made =
      malloc(sizeof(posted) + (size_t)parts * sizeof(MPI_Request) + (size_t)message->bytes);
  if (!made)
    return -1;
  char *data = (char *)(made->requests + parts);
  memcpy(data, message->data, (size_t)message->bytes);
  made->peer = message->peer;
  made->num_requests = (int)parts;
  for (int64_t i = 0, at = 0; i < parts; ++i, at += part_bytes) {
    int64_t bytes = message->bytes - at < part_bytes ? message->bytes - at : part_bytes;
    MPI_Isend(data + at, (int)bytes, MPI_BYTE, message->peer, message->tag, world,
              &made->requests[i]);
  }
  tpc_doorbell_ring(message->peer);
  made->next = posts;
  posts = made;
  return 0;
}

static void flush_next(void) { flushes_next = 1; }

/* Frees the posts that have been received. Returns whether there were any. */
static int advance_posts(void) {
  int moved = 0;
  for (posted **at = &posts; *at;) {
    int is_done = 0;
    MPI_Testall((*at)->num_requests, (*at)->requests, &is_done, MPI_STATUSES_IGNORE);
    if (!is_done) {
      at = &(*at)->next;
      continue;
    }
    posted *done = *at;
    *at = done->next;
    free(done);
    moved = 1;
  }
  return moved;
}

static int is_awaited(int32_t peer) {
  for (int i = 0; i < num_requests; ++i)
    if (requests[i] != MPI_REQUEST_NULL && peers[i] == peer)
      return 1;
  if (is_flushing)
    for (const posted *one = posts; one; one = one->next)
      if (one->peer == peer)
        return 1;
  return 0;
}

static int32_t awaited(int32_t *list, int32_t capacity) {
  int32_t count = 0;
  for (int32_t peer = 0; peer < world_size && count < capacity; ++peer)
    if (is_awaited(peer))
      list[count++] = peer;
  return count;
}

static int reach_all(const tpc_message *messages, int32_t count) {
  for (int32_t i = 0; i < count; ++i)
    if (!tpc_doorbell_reaches(messages[i].peer))
      return 0;
  return 1;
}

static int32_t start(const tpc_message *sends, int32_t num_sends, const tpc_message *receives,
                     int32_t num_receives) {
  if (!reserve(parts_of(sends, num_sends) + parts_of(receives, num_receives)))
    return -1;
  is_flushing = flushes_next;
  flushes_next = 0;
  /* Receives first, so that early messages find their buffer. */
  num_incoming = start_some(receives, num_receives, 0, 0);
  num_requests = num_open = start_some(sends, num_sends, 1, num_incoming);
  all_reached = reach_all(sends, num_sends) && reach_all(receives, num_receives);
  return 0;
}

static int32_t advance(void) {
  rings = tpc_doorbell_rings();
  int moved = posts ? advance_posts() : 0;
  int waits_for_posts = is_flushing && posts;
  if (num_open == 0)
    return waits_for_posts ? moved : 2;
  int num_completed = 0;
  MPI_Testsome(num_requests, requests, &num_completed, completed, MPI_STATUSES_IGNORE);
  if (num_completed <= 0)
    return moved;
  num_open -= num_completed;
  /* The sender of a long message waits for its acknowledgment. */
  for (int i = 0; i < num_completed; ++i)
    if (completed[i] < num_incoming)
      tpc_doorbell_ring(peers[completed[i]]);
  return num_open == 0 && !waits_for_posts ? 2 : 1;
}

/* Some MPI messages arrive without a ring (from other hosts, and parts of long messages). A
   sleep therefore ends after an eighth of the wait so far: the added delay is relatively small,
   and the cores stay free for computing ranks. */
static void sleep_on(double waited) {
  double pause = waited / 8, shortest = all_reached ? 200e-6 : 20e-6;
  tpc_doorbell_sleep(rings, pause < shortest ? shortest : pause > 2e-3 ? 2e-3 : pause);
}

static void abort_world(int32_t status) {
  fflush(stderr);
  MPI_Abort(world, status);
  _exit(status);
}

static void finalize(void) {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized || !is_open)
    return;
  tpc_doorbells_close();
  MPI_Comm_free(&world);
  if (is_ours)
    MPI_Finalize();
  is_open = 0;
  free(requests);
  free(peers);
  free(completed);
  requests = NULL;
  peers = NULL;
  completed = NULL;
  num_allocated = 0;
}

__attribute__((visibility("default"))) const tpc_mpi_shim *tpc_mpi_shim_v1(void) {
  static const tpc_mpi_shim shim = {TPC_MPI_SHIM_VERSION, init,    start,    post,
                                    flush_next,           advance, sleep_on, awaited,
                                    abort_world,          finalize};
  return &shim;
}
