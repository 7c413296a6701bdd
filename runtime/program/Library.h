//===- Library.h - Shared helpers of the library interface ----------------===//
//
// Helpers for the functions of tpc/session.h, which are defined in Library.cpp and in generate/.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_PROGRAM_LIBRARY_H
#define TPC_RT_PROGRAM_LIBRARY_H

#include "core/OutOfMemory.h"
#include "program/Error.h"
#include "program/Model.h"
#include "tpc/session.h"
#include <new>
#include <string>

struct tpc_model {
  tpc::rt::Model model;
  std::string notes;
};

namespace tpc::rt {

/// Sets the text of the calling thread's tpc_last_error. Returns `status`.
int keepError(int status, const char *message);

/// Calls `fn` and converts exceptions to a status, so that no exception leaves the library.
template <class Fn> int guarded(Fn fn) {
  try {
    fn();
    return TPC_OK;
  } catch (const BrokenStep &error) {
    return keepError(TPC_BROKEN, error.what());
  } catch (const std::bad_alloc &error) {
    return keepError(TPC_REFUSED, textOf(error));
  } catch (const std::exception &error) {
    return keepError(TPC_REFUSED, error.what());
  } catch (...) {
    return keepError(TPC_REFUSED, "internal error: unknown exception");
  }
}

/// Manifest of the program; lives as long as the library is loaded.
const Manifest &manifestOfProgram();

inline void require(const void *pointer, const char *what) {
  if (!pointer)
    throw UserError(std::string(what) + " is null");
}

/// Runs a generating program, whose only input is rows of ids, and returns the logits of the token
/// after each row. Defined in generate/. Throws as `Model::run` does.
std::vector<Tensor> runPrompts(Model &model, const Manifest &manifest,
                               const std::vector<std::string> &names,
                               const std::function<Given(const Port &)> &take);

/// Returns the model; throws if it is not usable in this process.
Model &usable(tpc_model *handle);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_LIBRARY_H
