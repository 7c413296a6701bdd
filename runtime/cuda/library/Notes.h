//===- Notes.h - Notes of GPU devices -------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_NOTES_H
#define TPC_RT_CUDA_LIBRARY_NOTES_H

#include <string>
#include <vector>

namespace tpc::rt::cuda {

/// Adds a note for the user. The program prints or collects it (DeviceKind::takeNotes). Any thread
/// may call it.
void addNote(std::string text);

/// Returns and removes all notes.
std::vector<std::string> takeNotes();

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_NOTES_H
