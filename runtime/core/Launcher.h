//===- Launcher.h - who started this process, and as which rank -----------===//

#ifndef TPC_RT_CORE_LAUNCHER_H
#define TPC_RT_CORE_LAUNCHER_H

#include <string>

namespace tpc::rt {

/// What the environment says about who started this process.
struct Launcher {
  enum class Kind {
    None,  ///< all ranks are threads of this process
    Mpi,   ///< a launcher of MPI programs
    Torch, ///< torchrun, or whoever sets RANK and WORLD_SIZE
    Slurm, ///< a step of Slurm, by srun without MPI
  };
  Kind kind = Kind::None;
  bool present() const { return kind != Kind::None; }
  std::string variable;     ///< the variable that gives it away
  std::string rankVariable; ///< the one that has the rank; empty: none
  int rank = -1;            ///< -1: not said
  int size = -1;
  int local = -1;     ///< rank among those of this host
  int localSize = -1; ///< number of ranks that were started on this host

  // Where MPI does not say how ranks find each other:
  std::string address; ///< of rank 0: a name or a number
  int port = 0;        ///< that rank 0 listens on
  std::string run;     ///< ranks of another run are strangers
  std::string problem; ///< what is wrong with the variables, or empty

  /// The variables that processes of one run have in common, and those of others do not.
  static constexpr const char *runVariables[] = {
      "PMIX_NAMESPACE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
      "MASTER_ADDR",    "MASTER_PORT",         "TPC_PORT",
      "SLURM_JOB_ID",   "SLURM_STEP_ID"};
  /// Their values here, as a text that processes of one run on this host agree on.
  std::string key() const;

  /// The command that starts `ranks` of them: "mpirun … -n 4", "srun -n 4".
  static std::string command(Kind kind, int ranks);
};

/// Looks at the variables of Open MPI, PMI and PMIx, then at those of torchrun, then at Slurm's.
/// TPC_TRANSPORT=threads makes it blind, mpi and tcp to what is of the other kind.
Launcher detectLauncher();

/// The first host of a list as Slurm writes them: "node07" of "node[07-12,20],login".
std::string firstHost(const std::string &list);

} // namespace tpc::rt

#endif // TPC_RT_CORE_LAUNCHER_H
