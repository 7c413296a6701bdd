//===- ApiGraph.cpp - Capture and graphs ----------------------------------===//

#include "Api.h"

#include <algorithm>

using namespace sim;

Result sim::cuStreamBeginCapture_v2(Stream *handle, CaptureMode mode) {
  return call("cuStreamBeginCapture_v2", Current, [&](Lock &) {
    Stream *stream = find(handle);
    if (!stream)
      return misuse("cuStreamBeginCapture", ERROR_INVALID_HANDLE,
                    "the handle is no stream of this context");
    if (mode < CaptureGlobal || mode > CaptureRelaxed)
      return ERROR_INVALID_VALUE;
    if (stream->legacy)
      return ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture) {
      invalidate(*stream->capture, "cuStreamBeginCapture of a stream that captures");
      return ERROR_ILLEGAL_STATE;
    }
    auto capture = std::make_shared<Capture>();
    capture->origin = stream;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->graph.lanes = 1;
    capture->streams.push_back(stream);
    stream->capture = capture;
    stream->captureLane = 0;
    stream->tips.clear();
    state().captures.insert(std::move(capture));
    return SUCCESS;
  });
}

/// Returns whether the last node of each stream is joined to the origin's stream.
static bool joined(const Capture &capture) {
  std::vector<bool> reached(capture.graph.nodes.size());
  std::vector<size_t> open = capture.origin->tips;
  while (!open.empty()) {
    size_t node = open.back();
    open.pop_back();
    if (reached[node])
      continue;
    reached[node] = true;
    const auto &before = capture.graph.nodes[node].before;
    open.insert(open.end(), before.begin(), before.end());
  }
  return std::all_of(reached.begin(), reached.end(), [](bool one) { return one; });
}

Result sim::cuStreamEndCapture(Stream *handle, Graph **result) {
  return call("cuStreamEndCapture", Current, [&](Lock &) {
    Stream *stream = find(handle);
    if (!stream)
      return misuse("cuStreamEndCapture", ERROR_INVALID_HANDLE,
                    "the handle is no stream of this context");
    if (!result)
      return ERROR_INVALID_VALUE;
    std::shared_ptr<Capture> capture = stream->capture;
    if (!capture)
      return misuse("cuStreamEndCapture", ERROR_ILLEGAL_STATE, "the stream does not capture");
    *result = nullptr;
    if (capture->origin != stream) {
      invalidate(*capture, "it must end in the stream in which it began");
      return ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (capture->mode != CaptureRelaxed && capture->thread != std::this_thread::get_id()) {
      invalidate(*capture, "it must end in the thread in which it began");
      return ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    Result outcome = capture->invalidated ? ERROR_STREAM_CAPTURE_INVALIDATED : SUCCESS;
    if (!outcome && !joined(*capture)) {
      report("capture: a stream that joined it has work that the first stream does not wait for");
      outcome = ERROR_STREAM_CAPTURE_UNJOINED;
    }
    for (Stream *each : capture->streams) {
      each->capture = nullptr;
      each->tips.clear();
    }
    capture->ended = true;
    state().captures.erase(capture);
    if (outcome)
      return outcome;
    auto graph = std::make_unique<Graph>(std::move(capture->graph));
    *result = graph.get();
    state().graphs[graph.get()] = std::move(graph);
    return SUCCESS;
  });
}

Result sim::cuStreamIsCapturing(Stream *handle, CaptureStatus *status) {
  return call("cuStreamIsCapturing", Current, [&](Lock &) {
    Stream *stream = find(handle);
    if (!stream)
      return misuse("cuStreamIsCapturing", ERROR_INVALID_HANDLE,
                    "the handle is no stream of this context");
    if (!status)
      return ERROR_INVALID_VALUE;
    *status = !stream->capture               ? CaptureNone
              : stream->capture->invalidated ? CaptureInvalidated
                                             : CaptureActive;
    return SUCCESS;
  });
}

Result sim::cuStreamGetCaptureInfo_v3(Stream *handle, CaptureStatus *status, unsigned long long *id,
                                      Graph **graph, GraphNode *const **nodes,
                                      const EdgeData **edges, size_t *count) {
  return call("cuStreamGetCaptureInfo_v3", Current, [&](Lock &) {
    Stream *stream = find(handle);
    if (!stream)
      return misuse("cuStreamGetCaptureInfo", ERROR_INVALID_HANDLE,
                    "the handle is no stream of this context");
    if (!status || id || graph)
      return ERROR_INVALID_VALUE; // other results are not simulated
    *status = !stream->capture               ? CaptureNone
              : stream->capture->invalidated ? CaptureInvalidated
                                             : CaptureActive;
    if (*status != CaptureActive)
      return SUCCESS;
    // Valid until the next call about the stream.
    thread_local std::vector<GraphNode *> tips;
    thread_local std::vector<EdgeData> data;
    tips.clear();
    for (size_t tip : stream->tips)
      tips.push_back(&stream->capture->graph.nodes[tip]);
    data.assign(tips.size(), EdgeData());
    if (nodes)
      *nodes = tips.data();
    if (edges)
      *edges = data.data();
    if (count)
      *count = tips.size();
    return SUCCESS;
  });
}

Result sim::cuGraphNodeGetType(GraphNode *handle, NodeType *type) {
  return call("cuGraphNodeGetType", Initialized, [&](Lock &) {
    auto isNode = [&](const Graph &graph) {
      return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                         [&](const GraphNode &one) { return &one == handle; });
    };
    bool isKnown = std::any_of(state().captures.begin(), state().captures.end(),
                               [&](const auto &one) { return isNode(one->graph); }) ||
                   std::any_of(state().graphs.begin(), state().graphs.end(),
                               [&](const auto &one) { return isNode(*one.second); });
    if (!type || !isKnown)
      return misuse("cuGraphNodeGetType", ERROR_INVALID_VALUE, "no node of a graph");
    *type = handle->work->isKernel ? NodeKernel : NodeCopy;
    return SUCCESS;
  });
}

Result sim::cuThreadExchangeStreamCaptureMode(CaptureMode *mode) {
  if (!mode || *mode < CaptureGlobal || *mode > CaptureRelaxed)
    return ERROR_INVALID_VALUE;
  std::swap(*mode, captureModeOfThread());
  return SUCCESS;
}

static Graph *findGraph(Graph *handle) {
  auto found = state().graphs.find(handle);
  return found == state().graphs.end() ? nullptr : found->second.get();
}

Result sim::cuGraphInstantiateWithFlags(GraphExec **result, Graph *handle,
                                        unsigned long long flags) {
  return call("cuGraphInstantiateWithFlags", Current | Safe, [&](Lock &) {
    Graph *graph = findGraph(handle);
    if (!graph)
      return misuse("cuGraphInstantiate", ERROR_INVALID_VALUE, "no graph");
    if (!result || flags > 15)
      return ERROR_INVALID_VALUE;
    auto exec = std::make_unique<GraphExec>();
    exec->graph = *graph;
    exec->context = currentContext();
    for (size_t i = 0; i < graph->lanes; ++i)
      exec->lanes.push_back(newLane());
    *result = exec.get();
    state().execs[exec.get()] = std::move(exec);
    return SUCCESS;
  });
}

static GraphExec *findExec(GraphExec *handle) {
  auto found = state().execs.find(handle);
  return found == state().execs.end() ? nullptr : found->second.get();
}

Result sim::cuGraphLaunch(GraphExec *handle, Stream *streamHandle) {
  return call("cuGraphLaunch", Current, [&](Lock &) {
    GraphExec *exec = findExec(handle);
    Stream *stream = find(streamHandle);
    if (!exec || !stream || exec->context != stream->context)
      return misuse("cuGraphLaunch", ERROR_INVALID_VALUE,
                    "a handle is no graph or stream of this context");
    Context &context = *stream->context;
    if (stream->capture) {
      report("not simulated: a graph inside of a capture");
      invalidate(*stream->capture, "a graph was launched into the stream");
      return ERROR_NOT_SUPPORTED;
    }
    // Launches of one graph are ordered; nodes within a launch are ordered only by edges.
    OperationRef begin = append(*stream, nullptr, {exec->last});
    std::vector<OperationRef> made;
    for (const GraphNode &node : exec->graph.nodes) {
      auto operation = std::make_shared<Operation>();
      operation->context = &context;
      operation->work = node.work;
      operation->clock = begin->clock;
      std::vector<OperationRef> before{begin};
      for (size_t other : node.before)
        before.push_back(made[other]);
      for (const OperationRef &other : before)
        join(operation->clock, other->clock);
      operation->early = node.work->isDependent ? made[node.before[0]]->early : operation->clock;
      uint32_t lane = exec->lanes[node.lane];
      Clock &clock = operation->clock;
      clock.resize(std::max<size_t>(clock.size(), lane + 1));
      // Positions in a lane increase with each node, also over later launches.
      operation->access = {lane, ++exec->ticks,
                           std::make_shared<const std::string>(node.work->name + " of a graph")};
      clock[lane] = std::max(clock[lane], exec->ticks);
      made.push_back(operation);
      submit(operation, before);
    }
    exec->last = append(*stream, nullptr, made);
    return SUCCESS;
  });
}

Result sim::cuGraphUpload(GraphExec *handle, Stream *streamHandle) {
  return call("cuGraphUpload", Current, [&](Lock &) {
    GraphExec *exec = findExec(handle);
    Stream *stream = find(streamHandle);
    if (!exec || !stream)
      return misuse("cuGraphUpload", ERROR_INVALID_VALUE, "no graph or stream");
    append(*stream, nullptr);
    return SUCCESS;
  });
}

Result sim::cuGraphExecDestroy(GraphExec *handle) {
  return call("cuGraphExecDestroy", Initialized, [&](Lock &) {
    return state().execs.erase(handle)
               ? SUCCESS
               : misuse("cuGraphExecDestroy", ERROR_INVALID_VALUE, "no graph");
  });
}

Result sim::cuGraphDestroy(Graph *handle) {
  return call("cuGraphDestroy", Initialized, [&](Lock &) {
    return state().graphs.erase(handle) ? SUCCESS
                                        : misuse("cuGraphDestroy", ERROR_INVALID_VALUE, "no graph");
  });
}

Result sim::cuGraphGetNodes(Graph *handle, GraphNode **nodes, size_t *count) {
  return call("cuGraphGetNodes", Initialized, [&](Lock &) {
    Graph *graph = findGraph(handle);
    if (!graph || !count)
      return ERROR_INVALID_VALUE;
    for (size_t i = 0; nodes && i < *count; ++i)
      nodes[i] = i < graph->nodes.size() ? &graph->nodes[i] : nullptr;
    if (!nodes || *count > graph->nodes.size())
      *count = graph->nodes.size();
    return SUCCESS;
  });
}
