//===- Notes.h - Notes for the user ---------------------------------------===//

#ifndef TPC_RT_PROGRAM_NOTES_H
#define TPC_RT_PROGRAM_NOTES_H

#include <string>
#include <vector>

namespace tpc::rt {

/// Prints the note on standard error, unless the thread collects notes.
void note(const std::string &text);

/// Appends later notes of this thread to `into`. Null: notes are printed again.
void collectNotes(std::vector<std::string> *into);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_NOTES_H
