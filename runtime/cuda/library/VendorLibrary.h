//===- VendorLibrary.h - Run-time lookup of NVIDIA's libraries ------------===//
//
// The runtime is neither linked nor built against NVIDIA's libraries. Their functions are declared
// here (Driver.h, CublasLt.h) and looked up by name.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_VENDORLIBRARY_H
#define TPC_RT_CUDA_LIBRARY_VENDORLIBRARY_H

#include <initializer_list>
#include <string>

namespace tpc::rt::cuda {

/// Returns the file of the loaded library that contains a function.
std::string fileOf(const void *function);
template <class Result, class... Arguments> std::string fileOf(Result (*function)(Arguments...)) {
  return fileOf(reinterpret_cast<const void *>(function));
}

class VendorLibrary {
public:
  /// Loads the first of `names` that exists: in the folders of TPC_CUDA_LIBS, on the loader's path,
  /// in CUDA_HOME, or among the packages of the active Python environment.
  explicit VendorLibrary(std::initializer_list<const char *> names);

  /// Returns the reason if the library is missing or lacks a function; else an empty string.
  const std::string &problem() const { return text; }
  /// File of the loaded library.
  const std::string &path() const { return file; }

  /// Sets a pointer to a function. A missing function sets problem().
  template <typename Function> void find(Function *&function, const char *name) {
    function = reinterpret_cast<Function *>(lookUp(name));
  }
  /// Sets a pointer to an optional function; null if missing.
  template <typename Function> void findOptional(Function *&function, const char *name) {
    function = reinterpret_cast<Function *>(lookUp(name, /*isNeeded=*/false));
  }

private:
  void *lookUp(const char *name, bool isNeeded = true);

  void *handle = nullptr;
  std::string file, text;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_VENDORLIBRARY_H
