//===- Notes.cpp - Notes of GPU devices -----------------------------------===//

#include "cuda/library/Notes.h"
#include <algorithm>
#include <mutex>
#include <utility>

namespace tpc::rt::cuda {
namespace {

struct Notes {
  std::mutex mutex;
  std::vector<std::string> list;
};

/// Notes of the process. Never destroyed: ranks may run until its end.
Notes &notes() {
  static auto *const all = new Notes;
  return *all;
}

} // namespace

void addNote(std::string text) {
  std::lock_guard<std::mutex> lock(notes().mutex);
  std::vector<std::string> &list = notes().list;
  if (std::find(list.begin(), list.end(), text) == list.end()) // another rank's
    list.push_back(std::move(text));
}

std::vector<std::string> takeNotes() {
  std::lock_guard<std::mutex> lock(notes().mutex);
  return std::exchange(notes().list, {});
}

} // namespace tpc::rt::cuda
