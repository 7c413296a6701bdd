//===- Notes.h - what users are told beside results -----------------------===//

#ifndef TPC_RT_PROGRAM_NOTES_H
#define TPC_RT_PROGRAM_NOTES_H

#include <string>
#include <vector>

namespace tpc::rt {

/// Says it on standard error, unless the thread collects what it has to say.
void note(const std::string &text);

/// From now on notes of this thread are added there. Null: they are said.
void collectNotes(std::vector<std::string> *into);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_NOTES_H
