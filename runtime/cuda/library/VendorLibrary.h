//===- VendorLibrary.h - finding the vendor's libraries -------------------===//
//
// Nothing is linked or built against them: their functions are declared here (Driver.h, CublasLt.h)
// and looked up by name.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_VENDORLIBRARY_H
#define TPC_RT_CUDA_LIBRARY_VENDORLIBRARY_H

#include <initializer_list>
#include <string>

namespace tpc::rt::cuda {

/// The file that a function of a loaded library is in.
std::string fileOf(const void *function);
template <class Result, class... Arguments> std::string fileOf(Result (*function)(Arguments...)) {
  return fileOf(reinterpret_cast<const void *>(function));
}

class VendorLibrary {
public:
  /// The first of `names` that is there: in the folders of TPC_CUDA_LIBS, by the loader's path, in
  /// CUDA_HOME, among the packages of an active Python.
  explicit VendorLibrary(std::initializer_list<const char *> names);

  /// Why there is none, or what it lacks; empty: nothing.
  const std::string &problem() const { return text; }
  /// Its file.
  const std::string &path() const { return file; }

  /// Sets a pointer to a function; a function that is not there is a problem.
  template <typename Function> void find(Function *&function, const char *name) {
    function = reinterpret_cast<Function *>(lookUp(name));
  }
  /// The same for a function that need not be there: null.
  template <typename Function> void findIfThere(Function *&function, const char *name) {
    function = reinterpret_cast<Function *>(lookUp(name, /*isNeeded=*/false));
  }

private:
  void *lookUp(const char *name, bool isNeeded = true);

  void *handle = nullptr;
  std::string file, text;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_VENDORLIBRARY_H
