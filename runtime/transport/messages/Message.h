/* A message from process to process. Plain C, for the MPI shim. */
#ifndef TPC_RT_TRANSPORT_MESSAGES_MESSAGE_H
#define TPC_RT_TRANSPORT_MESSAGES_MESSAGE_H

#include <stdint.h>

typedef struct {
  void *data;
  int64_t bytes; /* 0 or more; the same at sender and receiver */
  int32_t peer;  /* rank in the world */
  int32_t tag;   /* messages of one pair and one tag arrive in order */
} tpc_message;

#endif /* TPC_RT_TRANSPORT_MESSAGES_MESSAGE_H */
