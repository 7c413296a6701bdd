//===- Library.h - what functions of the library's interface share --------===//
//
// Of tpc/session.h, whose functions are where what they do is: in Library.cpp, and beside what
// generates.
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

/// Keeps the text for the calling thread's tpc_last_error.
int keepError(int status, const char *message);

/// Nothing that is thrown leaves the library.
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

/// That of the program, as long as the library is loaded.
const Manifest &manifestOfProgram();

inline void require(const void *pointer, const char *what) {
  if (!pointer)
    throw UserError(std::string(what) + " is null");
}

/// Of a program that generates; generate/ has it: logits of what would follow the rows of ids,
/// which are the only input. Throws as `Model::run` does.
std::vector<Tensor> runPrompts(Model &model, const Manifest &manifest,
                               const std::vector<std::string> &names,
                               const std::function<Given(const Port &)> &take);

/// Throws where a model cannot be asked for anything in this process.
Model &usable(tpc_model *handle);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_LIBRARY_H
