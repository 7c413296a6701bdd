//===- Launcher.h - Detection of the launcher and the rank ----------------===//

#ifndef TPC_RT_CORE_LAUNCHER_H
#define TPC_RT_CORE_LAUNCHER_H

#include <string>

namespace tpc::rt {

/// Launch parameters from the environment.
struct Launcher {
  enum class Kind {
    None,  ///< all ranks are threads of this process
    Mpi,   ///< MPI launcher
    Torch, ///< torchrun, or a script that sets RANK and WORLD_SIZE
    Slurm, ///< Slurm step, by srun without MPI
  };
  Kind kind = Kind::None;
  bool present() const { return kind != Kind::None; }
  std::string variable;     ///< variable that identifies the launcher
  std::string rankVariable; ///< variable with the rank; empty: none
  int rank = -1;            ///< -1: not given
  int size = -1;
  int local = -1;     ///< rank among the ranks of this host
  int localSize = -1; ///< number of ranks started on this host

  // Rendezvous parameters, without MPI:
  std::string address; ///< host name or address of rank 0
  int port = 0;        ///< port that rank 0 listens on
  std::string run;     ///< run id; ranks of another run are rejected
  std::string problem; ///< error in the variables, or empty

  /// Variables that are equal in processes of one run and differ between runs.
  static constexpr const char *runVariables[] = {
      "PMIX_NAMESPACE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
      "MASTER_ADDR",    "MASTER_PORT",         "TPC_PORT",
      "SLURM_JOB_ID",   "SLURM_STEP_ID"};
  /// Returns the values of these variables as a key that all processes of one run on this host
  /// share.
  std::string key() const;

  /// Returns a command that starts `ranks` ranks: "mpirun … -n 4", "srun -n 4".
  static std::string command(Kind kind, int ranks);
};

/// Reads the variables of Open MPI, PMI and PMIx, then of torchrun, then of Slurm.
/// TPC_TRANSPORT restricts this: `threads` reads none of them, `mpi` only those of MPI, `tcp` only
/// those of torchrun and Slurm.
Launcher detectLauncher();

/// Returns the first host of a Slurm host list: "node07" of "node[07-12,20],login".
std::string firstHost(const std::string &list);

} // namespace tpc::rt

#endif // TPC_RT_CORE_LAUNCHER_H
